// Starts the page: the views, the choice of models and the keys that work everywhere.
(function (report) {
  "use strict";

  const { make } = report;
  const VIEWS = [report.frontierView, report.summaryView, report.graphView, report.layersView, report.decisionsView, report.adviceView];

  const offeredViews = () => VIEWS.filter((view) => view.isOffered(report.data));
  const currentView = () => offeredViews().find(({ name }) => `#${name}` === location.hash) ?? offeredViews()[0];

  function showNavigation() {
    const current = currentView();
    const link = (view) => make("a", { href: `#${view.name}`, "aria-current": view === current ? "page" : null }, view.title);
    document.getElementById("views").replaceChildren(...offeredViews().map(link));
  }

  // A view is made anew each time it is shown.
  function showView() {
    const view = currentView();
    report.panel.close();
    showNavigation();
    const section = make("section", { id: `view-${view.name}`, "aria-label": view.title }, make("h2", {}, view.title));
    document.getElementById("content").replaceChildren(section);
    document.getElementById("selection").hidden = report.data.models.length < 2 || view === report.summaryView;
    view.show(section);
    if (section.children.length === 1 && view.emptyText) section.append(make("p", { class: "note" }, view.emptyText));
  }

  function modelChoice(label, place, options) {
    const chosen = report.selection[place];
    return report.labelled(label, report.select(options, chosen === undefined ? "" : String(chosen), (value) => chooseModel(place, value)));
  }

  function chooseModel(place, value) {
    const chosen = [...report.selection];
    chosen[place] = value === "" ? undefined : Number(value);
    report.selection = [...new Set(chosen.filter((index) => index !== undefined))];
    showSelection();
    showView();
    document.getElementById("selection").querySelectorAll("select")[place].focus();
  }

  function showSelection() {
    const options = report.data.models.map(({ index, name, role }) => [String(index), `${name} (${report.formats.text(role)})`]);
    const choices = [modelChoice("Model", 0, options), modelChoice("beside", 1, [["", "nothing"], ...options])];
    document.getElementById("selection").replaceChildren(...choices);
  }

  function isTyping({ target }) {
    return target.matches("input[type=search], textarea, select");
  }

  function onKey(event) {
    if (event.key === "Escape") report.panel.close();
    if (event.key !== "/" || isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    const field = document.querySelector("#content input[type=search]");
    if (field === null) return;
    event.preventDefault();
    field.focus();
  }

  // Without following the link, whose fragment would be taken for a view.
  function skipToContent(event) {
    event.preventDefault();
    document.getElementById("content").focus();
  }

  function start() {
    report.data = report.readData();
    report.selection = report.firstSelection(report.data.models);
    const title = report.data.title || "tsq report";
    document.title = `${title} – tsq report`;
    document.getElementById("title").textContent = title;
    const origin = [`Made by tsq report ${report.data.tsq ?? ""}`.trim(), report.data.date];
    document.getElementById("origin").textContent = origin.filter(Boolean).join(", ");
    showSelection();
    showView();
    document.querySelector(".skip").addEventListener("click", skipToContent);
    addEventListener("hashchange", () => {
      showView();
      scrollTo(0, 0);
    });
    document.addEventListener("keydown", onKey);
  }

  start();
})((globalThis.tsqReport ??= {}));
