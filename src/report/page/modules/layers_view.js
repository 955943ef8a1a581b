// The view "Layers": noise and time of each layer as charts and as a table, of one int8 model or of two side by side.
(function (report) {
  "use strict";

  const { make, formats, charts } = report;

  // [title, value, format, help]
  const MEASURES = [
    ["SQNR", (row) => row.sqnr_db, formats.decibels, "of the output, with the errors of all layers before"],
    ["Alone", (row) => row.alone_sqnr_db, formats.decibels, "SQNR of the output when the input is the float model's"],
    ["Weight", (row) => row.weight_sqnr_db, formats.decibels, "SQNR of the weight, apart from a factor for each channel"],
    ["Outside", (row) => row.outside, formats.percent, "share of the float values that the range of codes does not reach"],
    ["Codes used", (row) => row.codes_used, formats.count, "codes of the range that occur"],
    ["Outlier", (row) => row.outlier, formats.number, "the largest float value over the one that 99 % do not exceed"],
    ["Time", (row) => row.seconds, formats.seconds, "of the int8 model"],
    ["Float time", (row) => row.float_seconds, formats.seconds, "of the float model"],
  ];

  const isMeasured = (entries, text) => entries.some(({ rows }) => rows.some((row) => row && text(row) !== formats.DASH));
  const suffix = (models, model) => (models.length > 1 ? `, ${model.name}` : "");

  function differs(entry, text) {
    const texts = entry.rows.map((row) => (row ? text(row) : formats.DASH));
    return new Set(texts).size > 1;
  }

  function kernelColumns(models) {
    return models.map((model, column) => ({
      title: `Kernel${suffix(models, model)}`,
      value: (entry) => entry.rows[column]?.kernel,
      differs: (entry) => differs(entry, (row) => formats.text(row.kernel)),
    }));
  }

  function measureColumns(models, entries) {
    const measured = MEASURES.filter(([, value, format]) => isMeasured(entries, (row) => format(value(row))));
    return measured.flatMap((measure) => models.map((model, column) => measureColumn(measure, column, suffix(models, model))));
  }

  function measureColumn([title, value, format, help], column, modelName) {
    const text = (row) => format(value(row)) + (title === "SQNR" && row.is_scaled ? " *" : "");
    return {
      title: title + modelName,
      help,
      isNumber: true,
      value: ({ rows }) => rows[column] && value(rows[column]),
      content: ({ rows }) => (rows[column] ? text(rows[column]) : formats.DASH),
      differs: (entry) => differs(entry, text),
    };
  }

  function layerTable(models, entries) {
    const numberOf = new Map(entries.map((entry, index) => [entry, index + 1]));
    const columns = [
      { title: "No.", value: (entry) => numberOf.get(entry), isNumber: true },
      { title: "Layer", value: ({ key }) => key, isHeader: true, content: ({ key }) => report.layerLink(key) },
      ...kernelColumns(models),
      ...measureColumns(models, entries),
    ];
    return report.table({ caption: "Layers", columns, rows: entries });
  }

  const valuesOf = (entries, column, value) => entries.map(({ rows }) => {
    const found = rows[column] && value(rows[column]);
    return formats.isNumber(found) ? found : null;
  });

  function noiseSeries(models, entries) {
    return models.flatMap(({ index, ...model }, column) => {
      const name = suffix(models, model);
      return [
        { label: `SQNR${name}`, values: valuesOf(entries, column, (row) => row.sqnr_db), kind: "line", index },
        { label: `alone${name}`, values: valuesOf(entries, column, (row) => row.alone_sqnr_db), kind: "points", index },
      ];
    });
  }

  // The float model is the same for all: its times are taken from the first that has them.
  function timeSeries(models, entries) {
    const float = report.data.models.find((model) => !model.isInt8);
    const floatValues = entries.map(({ rows }) => rows.map((row) => row?.float_seconds).find(formats.isNumber) ?? null);
    const int8 = models.map(({ name, index }, column) => {
      const values = valuesOf(entries, column, (row) => row.seconds);
      return { label: models.length > 1 ? name : "int8", values, kind: "bars", index };
    });
    return [{ label: "float", values: floatValues, kind: "bars", index: float?.index ?? 0 }, ...int8];
  }

  function layerChart(entries, series, options) {
    const known = series.filter(({ values }) => values.some((value) => value !== null));
    if (known.length === 0) return null;
    const layers = entries.map(({ key }) => formats.text(key));
    return charts.layerChart({ layers, series: known, onLayer: report.panel.showLayer, ...options });
  }

  function missingTable(models) {
    const rows = models.flatMap((model) => model.missingLayers.map((missing) => ({ ...missing, model: model.name })));
    if (rows.length === 0) return null;
    const columns = [
      { title: "Layer", value: ({ layer }) => layer, isHeader: true },
      ...(models.length > 1 ? [{ title: "Model", value: ({ model }) => model }] : []),
      { title: "Reason", value: ({ reason }) => reason },
    ];
    return [make("h3", {}, "Layers that could not be compared"), report.table({ caption: "Missing layers", columns, rows })];
  }

  function noteOn(models) {
    const isScaled = models.some(({ layers }) => layers.some((row) => row.is_scaled));
    return `Click a layer to see its histograms.${isScaled ? " * is without the factors by which recipe best has divided channels." : ""}`;
  }

  const NOISE = { caption: "SQNR of each layer, in the order of the flow", title: "SQNR", text: formats.decibels };
  const TIME = { caption: "Time of each layer", title: "time", text: formats.seconds };

  function layerParts(models, entries) {
    const parts = [
      layerChart(entries, noiseSeries(models, entries), NOISE),
      layerChart(entries, timeSeries(models, entries), TIME),
      make("p", { class: "note" }, noteOn(models)),
      layerTable(models, entries),
    ];
    return parts.filter(Boolean);
  }

  function show(section) {
    const models = report.int8Models();
    const entries = report.sideBySide(models, ({ layers }) => layers, ({ layer }) => layer);
    if (entries.length > 0) section.append(...layerParts(models, entries));
    section.append(...(missingTable(models) ?? []));
  }

  report.layersView = {
    name: "layers",
    title: "Layers",
    isOffered: ({ models }) => models.some(({ layers, missingLayers }) => layers.length + missingLayers.length > 0),
    show,
    emptyText: "No layers of this model were compared.",
  };
})((globalThis.tsqReport ??= {}));
