// The panel beside the page: everything known of an operator, a layer or a group. Escape closes it.
(function (report) {
  "use strict";

  const { make, breakable, button, formats, charts } = report;
  let opener = null;

  const element = () => document.getElementById("panel");
  const isOpen = () => !element().hidden;

  // Is it at the bottom of a narrow screen, and not beside the page?
  const isBelow = () => isOpen() && matchMedia("(max-width: 48rem)").matches;
  const top = () => element().getBoundingClientRect().top;

  // With `takesFocus` the reader goes into the panel, and Escape brings the focus back.
  function open(title, parts, takesFocus) {
    if (!element().contains(document.activeElement)) opener = document.activeElement;
    const heading = make("h2", { id: "panel-title", tabindex: "-1" }, breakable(title));
    element().replaceChildren(make("div", { class: "panel-head" }, heading, button("Close", close)), ...parts);
    element().hidden = false;
    element().scrollTop = 0;
    document.body.classList.add("has-panel");
    if (takesFocus) heading.focus();
  }

  function close() {
    if (!isOpen()) return;
    const hadFocus = element().contains(document.activeElement);
    element().hidden = true;
    element().replaceChildren();
    document.body.classList.remove("has-panel");
    if (hadFocus && opener?.isConnected) opener.focus();
  }

  // [[label, value], …]; values may be elements. What is not known is left out.
  function facts(entries) {
    const known = entries.filter(([, value]) => value !== formats.DASH && value !== null && value !== undefined);
    return known.length === 0 ? null : make("dl", {}, known.map(fact));
  }

  function fact([label, value]) {
    return make("div", {}, make("dt", {}, label), make("dd", {}, typeof value === "string" ? breakable(value) : value));
  }

  function part(title, ...content) {
    const known = content.flat().filter((child) => child !== null);
    return known.length === 0 ? null : make("section", {}, make("h3", {}, title), known);
  }

  // [title, value of a layer's row as text, what it means]
  const FIGURES = [
    ["kernel", (row) => formats.text(row.kernel), "operator of the int8 model"],
    ["float operator", (row) => formats.text(row.float_operator), "operator of the float model whose value it is to equal"],
    ["SQNR", (row) => formats.decibels(row.sqnr_db) + (row.is_scaled ? " *" : ""), "of the output, with the errors of all layers before"],
    ["SQNR alone", (row) => formats.decibels(row.alone_sqnr_db), "of the output when the input is the float model's"],
    ["SQNR of the weight", (row) => formats.decibels(row.weight_sqnr_db), "apart from a factor for each channel"],
    ["outside", (row) => formats.percent(row.outside), "share of the float values that the range of codes does not reach"],
    ["codes", (row) => codesText(row), "codes of the range that occur"],
    ["outlier", (row) => formats.number(row.outlier), "the largest float value over the one that 99 % do not exceed"],
    ["time", (row) => formats.seconds(row.seconds), "of the int8 model in this layer"],
    ["time in float", (row) => formats.seconds(row.float_seconds), "of the float model in this layer"],
  ];

  function codesText({ codes, codes_used: used }) {
    if (!formats.isNumber(used)) return formats.DASH;
    return formats.isNumber(codes) ? `${formats.count(used)} of ${formats.count(codes)}` : formats.count(used);
  }

  function layerFigures(layer, models) {
    const rows = models.map((model) => model.layerRows.get(layer));
    if (rows.every((row) => row === undefined)) return null;
    const lines = FIGURES.map(([title, text, help]) => ({ title, help, texts: rows.map((row) => (row ? text(row) : formats.DASH)) }));
    const known = lines.filter(({ texts }) => texts.some((text) => text !== formats.DASH));
    const note = rows.some((row) => row?.is_scaled) ? make("p", { class: "note" }, SCALED) : null;
    return [make("table", { class: "figures" }, modelNames(models), make("tbody", {}, known.map(figureLine))), note];
  }

  const SCALED = "* without the factors by which recipe best has divided channels";

  function modelNames(models) {
    if (models.length < 2) return null;
    return make("thead", {}, make("tr", {}, make("td"), models.map(({ name }) => make("th", { scope: "col" }, name))));
  }

  function figureLine({ title, help, texts }) {
    const differs = new Set(texts).size > 1;
    const cells = texts.map((text) => make("td", {}, breakable(text)));
    return make("tr", { class: differs ? "differs" : null }, make("th", { scope: "row", title: help }, title), cells);
  }

  function histogramsOf(layer, models) {
    return models.flatMap((model) => {
      const row = model.layerRows.get(layer);
      return [["activation", "Values of the output"], ["weight", "Values of the weight"]]
        .filter(([name]) => charts.hasHistogram(row?.[name]))
        .map(([name, title]) => charts.histogram(models.length > 1 ? `${title}, ${model.name}` : title, row[name], model.index));
    });
  }

  function decisionParts(layer, models) {
    return models.flatMap(({ name, decisionsOfLayer }) => {
      const decisions = decisionsOfLayer.get(layer) ?? [];
      return decisions.map((decision) => decisionFacts(decision, models.length > 1 ? name : null));
    });
  }

  function decisionFacts(decision, modelName) {
    return facts([
      ["model", modelName],
      ["operator", formats.text(decision.operator)],
      ["node", formats.text(decision.node)],
      ["quantized", decision.quantized ? "yes" : "no, it stays float"],
      ["kernel", formats.text(decision.kernel)],
      ["reason", formats.text(decision.reason)],
      ["remedy", formats.text(decision.remedy)],
      ["QConfig", formats.text(decision.qconfig)],
      ["QConfig from", formats.text(decision.qconfig_source)],
      ...(decision.notes ?? []).map((note) => ["note", note]),
    ]);
  }

  function adviceParts(layer, models) {
    const entries = models.flatMap((model) => model.adviceOfLayer.get(layer) ?? []);
    return entries.map((entry) => facts(["finding", "figures", "advice"].map((name) => [name, formats.text(entry[name])])));
  }

  function layerParts(layer, models) {
    return [
      part("Layer, int8 beside float", layerFigures(layer, models)),
      part("Histograms", histogramsOf(layer, models)),
      part(models.length > 1 ? "Decisions" : "Decision", decisionParts(layer, models)),
      part("Advice", adviceParts(layer, models)),
    ].filter(Boolean);
  }

  // A button in a table that shows the layer.
  function layerLink(layer) {
    return layer ? button(breakable(layer), () => showLayer(layer), { class: "link" }) : formats.DASH;
  }

  function showLayer(layer) {
    const isInGraph = report.chosenModels().some(({ operators }) => operators.some((operator) => operator.layer === layer));
    const toGraph = isInGraph ? [button("Show in the graph", () => report.graphView.goToLayer(layer))] : [];
    open(layer, [...toGraph, ...layerParts(layer, report.int8Models())], true);
  }

  const NUMBERS = { int8: "int8", float: "float", conversion: "conversion between float and int8", other: "other" };

  function neighbours(model, indices, goTo) {
    if (indices.length === 0) return null;
    const link = (index) => button(breakable(operatorTitle(model.operators[index])), () => goTo(index), { class: "link" });
    return make("ul", {}, indices.map((index) => make("li", {}, link(index))));
  }

  const operatorTitle = ({ kind, layer }) => (layer === "" ? kind : `${kind} (${layer})`);

  // goTo(index) shows another operator of the same model.
  function showOperator(model, operator, goTo, takesFocus) {
    const what = facts([
      ["layer", formats.text(operator.layer)],
      ["model", model.name],
      ["numbers", NUMBERS[operator.numbers] ?? formats.text(operator.numbers)],
      ["shape", formats.shape(operator.shape)],
      ["time", formats.seconds(operator.seconds)],
      ["SQNR", formats.decibels(operator.sqnr_db)],
      ["SQNR alone", formats.decibels(operator.alone_sqnr_db)],
      ["inputs", neighbours(model, operator.inputs, goTo)],
      ["outputs", neighbours(model, operator.outputs, goTo)],
    ]);
    const models = model.isInt8 && report.int8Models().length < 2 ? [model] : report.int8Models();
    open(operator.kind, [what, ...(operator.layer === "" ? [] : layerParts(operator.layer, models))], takesFocus);
  }

  function showGroup(model, group, actions, takesFocus) {
    const { sums } = group;
    const counts = Object.entries(sums.numbers).map(([kind, count]) => `${formats.count(count)} ${kind}`).join(", ");
    const what = facts([
      ["path", formats.text(group.path)],
      ["model", model.name],
      ["operators", `${formats.count(sums.count)}: ${counts}`],
      ["time", formats.seconds(sums.seconds)],
      ["worst SQNR", formats.decibels(sums.sqnr)],
      ["worst SQNR alone", formats.decibels(sums.alone)],
    ]);
    open(group.label, [what, make("div", { class: "tools" }, actions.map(([label, action]) => button(label, action)))], takesFocus);
  }

  report.layerLink = layerLink;
  report.panel = { showLayer, showOperator, showGroup, close, isOpen, isBelow, top };
})((globalThis.tsqReport ??= {}));
