// The view "Graph": the graphs of the chosen models, side by side, with search and colours for both.
(function (report) {
  "use strict";

  const { make, button, formats } = report;
  const state = { mode: "numbers", panes: [], wantedLayer: null };

  function destroyPanes() {
    state.panes.forEach((pane) => pane.destroy());
    state.panes = [];
  }

  function searchTools() {
    const status = make("span", { class: "found", role: "status" });
    const search = report.searchField("Search", () => find(search.field.value, status), {
      placeholder: "layer or kernel",
      onkeydown: (event) => onSearchKey(event, status),
    });
    return [search.element, button("Previous", () => step(-1, status)), button("Next", () => step(1, status)), status];
  }

  function find(text, status) {
    const counts = state.panes.map((pane) => pane.find(text));
    status.textContent = text === "" ? "" : `${counts.map(formats.count).join(" and ")} found`;
  }

  function step(by, status) {
    const places = state.panes.map((pane) => pane.step(by));
    if (places.some((place) => place > 0)) status.textContent = `number ${places.join(" and ")}`;
  }

  function onSearchKey(event, status) {
    if (event.key === "Enter") {
      event.preventDefault();
      step(event.shiftKey ? -1 : 1, status);
    } else if (event.key === "Escape") {
      event.target.value = "";
      find("", status);
      state.panes[0]?.focus();
    }
  }

  function colourChoice() {
    const options = report.nodeColours.MODES.map(({ name, label }) => [name, label]);
    const choose = (mode) => {
      state.mode = mode;
      state.panes.forEach((pane) => pane.setMode(mode));
    };
    return report.labelled("Colour", report.select(options, state.mode, choose));
  }

  function viewTools() {
    const all = (action) => () => state.panes.forEach(action);
    return [
      button("Fit", all((pane) => pane.fit())),
      button("+", all((pane) => pane.zoomBy(1.25)), { "aria-label": "Zoom in" }),
      button("−", all((pane) => pane.zoomBy(0.8)), { "aria-label": "Zoom out" }),
      button("Open one level", all((pane) => pane.openLevel())),
      button("Close all groups", all((pane) => pane.closeAll())),
    ];
  }

  function fillPane(host, model) {
    if (model.operators.length === 0) return host.append(make("p", { class: "note" }, "No operators are known of this model."));
    state.panes.push(new report.GraphPane(host, model, { mode: state.mode, onCurrent: (node) => followIn(model, node) }));
  }

  function followIn(model, node) {
    if (!node.operator) return;
    for (const pane of state.panes) if (pane.model !== model) pane.markLayer(node.operator.layer);
  }

  const HINT =
    "Click a group to open it and an operator to see all about it. Keys: arrows follow the data, Enter opens, Backspace closes the " +
    "group, / searches, Escape closes the panel.";

  function show(section) {
    destroyPanes();
    const frame = make("div", { class: "panes" });
    section.append(
      make("div", { class: "tools" }, searchTools(), colourChoice(), viewTools()),
      frame,
      make("p", { class: "note keys" }, HINT),
    );
    // All places first: a graph is fitted to the width that its place has in the end.
    const models = report.chosenModels();
    const hosts = models.map((model) => make("div", { class: "pane" }, make("h3", {}, model.name)));
    frame.append(...hosts);
    hosts.forEach((host, place) => fillPane(host, models[place]));
    if (state.wantedLayer !== null) state.panes.forEach((pane) => pane.goToLayer(state.wantedLayer));
    state.wantedLayer = null;
  }

  // From another view.
  function goToLayer(layer) {
    state.wantedLayer = layer;
    location.hash = "graph";
  }

  report.theme.onThemeChange(() => state.panes.forEach((pane) => pane.recolour()));

  report.graphView = {
    name: "graph",
    title: "Graph",
    isOffered: ({ models }) => models.some(({ operators }) => operators.length > 0),
    show,
    goToLayer,
    panes: () => state.panes,
  };
})((globalThis.tsqReport ??= {}));
