// The data of the page, with optional parts filled by empty ones, and what is found in it by name.
(function (report) {
  "use strict";

  const list = (value) => (Array.isArray(value) ? value : []);

  // Rows by layer. Where a layer has several rows (several calls), the first is kept.
  function firstByLayer(rows) {
    const found = new Map();
    for (const row of rows) if (!found.has(row.layer)) found.set(row.layer, row);
    return found;
  }

  function groupedByLayer(rows) {
    const found = new Map();
    for (const row of rows) {
      if (!found.has(row.layer)) found.set(row.layer, []);
      found.get(row.layer).push(row);
    }
    return found;
  }

  // Operators know one another by index: "inputs" as given, "outputs" from it. Unknown ids are left out.
  function linked(operators) {
    const indexOf = new Map(operators.map((operator, index) => [operator.id, index]));
    const nodes = operators.map((operator, index) => ({
      ...operator,
      index,
      kind: String(operator.kind ?? "?"),
      layer: String(operator.layer ?? ""),
      numbers: operator.numbers ?? "other",
      inputs: list(operator.inputs).map((id) => indexOf.get(id)).filter((input) => input !== undefined),
      outputs: [],
    }));
    for (const node of nodes) for (const input of new Set(node.inputs)) nodes[input].outputs.push(node.index);
    return nodes;
  }

  function completed(model, index) {
    const layers = list(model.layers);
    const decisions = list(model.decisions);
    const advice = list(model.advice);
    return {
      ...model,
      index,
      name: String(model.name ?? `model ${index + 1}`),
      isInt8: model.role === "int8",
      operators: linked(list(model.operators)),
      layers,
      decisions,
      advice,
      missingLayers: list(model.missing_layers),
      layerRows: firstByLayer(layers),
      decisionsOfLayer: groupedByLayer(decisions),
      adviceOfLayer: groupedByLayer(advice),
    };
  }

  // JSON has no number for the SQNR of two equal tensors.
  const withInfinity = (key, value) => (key.endsWith("_db") && value === "infinite" ? Infinity : value);

  function readData() {
    const data = JSON.parse(document.getElementById("tsq-data").textContent, withInfinity);
    return { ...data, models: list(data.models).map(completed) };
  }

  // The models that the reader has chosen: one, or two side by side.
  function firstSelection(models) {
    const int8 = models.filter((model) => model.isInt8);
    return (int8.length > 0 ? int8 : models).slice(0, 2).map((model) => model.index);
  }

  // Tables and charts of layers are of int8 models: those chosen, or the first if only the float model is.
  function int8Models() {
    const chosen = report.selection.map((index) => report.data.models[index]).filter((model) => model.isInt8);
    return chosen.length > 0 ? chosen : report.data.models.filter((model) => model.isInt8).slice(0, 1);
  }

  function chosenModels() {
    return report.selection.map((index) => report.data.models[index]);
  }

  // Rows of several models side by side: [{key, rows: [row or undefined of each model]}, …], in the order of the flow: what the first
  // model lacks stands after the row that is before it in its own model. Rows with the same key, as of a layer that is called twice,
  // are joined in their order.
  function sideBySide(models, rowsOf, keyOf) {
    const joined = new Map();
    const order = [];
    models.forEach((model, column) => {
      const seen = new Map();
      let place = 0;
      for (const row of rowsOf(model)) {
        const name = keyOf(row);
        const call = seen.get(name) ?? 0;
        seen.set(name, call + 1);
        const key = `${call}\u0000${name}`;
        if (!joined.has(key)) {
          joined.set(key, { key: name, rows: models.map(() => undefined) });
          order.splice(place, 0, joined.get(key));
        }
        const entry = joined.get(key);
        entry.rows[column] = row;
        place = order.indexOf(entry) + 1;
      }
    });
    return order;
  }

  Object.assign(report, { readData, firstSelection, int8Models, chosenModels, sideBySide });
})((globalThis.tsqReport ??= {}));
