// The view "Summary": models, sizes, latency and accuracy, and where they were measured.
(function (report) {
  "use strict";

  const { make, formats, charts } = report;

  function ratioText({ ratio, ratio_low: low, ratio_high: high } = {}) {
    if (!formats.isNumber(ratio)) return formats.DASH;
    const interval = formats.isNumber(low) && formats.isNumber(high) ? ` (${low.toFixed(2)} to ${high.toFixed(2)})` : "";
    return formats.ratio(ratio) + interval;
  }

  // How many decisions a share rests on stands beside it.
  function decisionsText({ agreement, decisions, outputs }) {
    if (!formats.isNumber(agreement)) return outputs?.length > 0 ? "not judged as decisions" : formats.DASH;
    const counts = ({ agreed, rows }) => `${formats.count(agreed)} of ${formats.count(rows)}`;
    if (!decisions) return formats.percent(agreement);
    return `${formats.percent(agreement)} (${counts(decisions)}; of the clear ones ${counts(decisions.clear)})`;
  }

  // Of each output, whether its numbers are scores, and by what.
  function outputEntries(models) {
    return models.filter(({ isInt8 }) => isInt8).flatMap(({ name, accuracy }) =>
      (accuracy?.outputs ?? []).filter(({ text }) => text).map((output) =>
        [models.length > 2 ? `${name}, ${output.name}` : output.name, output.text]));
  }

  // A column that no model has a value for is left out.
  function summaryColumns(models) {
    const columns = [
      { title: "Model", text: ({ name }) => name },
      { title: "Numbers", text: ({ role }) => formats.text(role) },
      { title: "Engine", text: ({ engine }) => formats.text(engine) },
      { title: "Mode", text: ({ mode }) => formats.text(mode) },
      { title: "Target", text: ({ target }) => formats.text(target) },
      { title: "Recipe", text: ({ recipe }) => formats.text(recipe) },
      { title: "Size", text: ({ bytes }) => formats.bytes(bytes) },
      { title: "Latency", text: ({ latency }) => formats.seconds(latency?.median_seconds) },
      { title: "Float's time over its own", text: ({ latency }) => ratioText(latency ?? {}) },
      { title: "SQNR of the worst output", text: ({ accuracy }) => formats.decibels(accuracy?.sqnr_db) },
      { title: "SQNR that 19 of 20 samples exceed", text: ({ accuracy }) => formats.decibels(accuracy?.expected_sqnr_db) },
      { title: "Agreement", text: ({ accuracy }) => decisionsText(accuracy ?? {}) },
      { title: "Operators", text: ({ operators }) => formats.count(operators.length) },
      { title: "Fault", text: ({ accuracy }) => formats.text(accuracy?.fault) },
      { title: "SHA-1", text: ({ sha1 }) => formats.text(sha1) },
    ];
    return columns.filter(({ text }) => models.some((model) => text(model) !== formats.DASH));
  }

  function modelTable(models) {
    const columns = summaryColumns(models);
    const rows = models.map((model) => make("tr", {}, columns.map(({ title, text }) => {
      const content = title === "SHA-1" ? make("code", { title: text(model) }, text(model).slice(0, 10)) : text(model);
      return title === "Model" ? make("th", { scope: "row" }, report.breakable(content)) : make("td", {}, content);
    })));
    const head = make("tr", {}, columns.map(({ title }) => make("th", { scope: "col" }, title)));
    return report.tableFrame("Models", make("thead", {}, head), make("tbody", {}, rows));
  }

  const MEASURES = [
    { title: "SQNR", value: (model) => model.accuracy?.sqnr_db, text: formats.decibels },
    { title: "Agreement of decisions", value: (model) => model.accuracy?.agreement, text: formats.percent, limit: 1 },
  ];

  function accuracyCharts(models) {
    const float = models.find((model) => !model.isInt8);
    const floatSeconds = float?.latency?.median_seconds;
    const reference = formats.isNumber(floatSeconds) ? { label: `${float.name}: its latency`, x: floatSeconds } : undefined;
    return MEASURES.map((measure) => accuracyChart(models, measure, reference)).filter(Boolean);
  }

  function accuracyChart(models, { title, value, text, limit }, reference) {
    const points = models
      .filter((model) => model.isInt8 && formats.isNumber(value(model)) && formats.isNumber(model.latency?.median_seconds))
      .map((model) => ({ label: model.name, index: model.index, x: model.latency.median_seconds, y: value(model) }));
    if (points.length === 0) return null;
    const axes = { xTitle: "latency", xText: formats.seconds, yTitle: title, yText: text, yLimit: limit };
    return charts.modelScatter({ caption: `${title} against latency`, points, reference, ...axes });
  }

  function barChart(models, caption, title, value, text) {
    const known = models.filter((model) => formats.isNumber(value(model)));
    const bars = known.map((model) => ({ label: model.name, index: model.index, value: value(model) }));
    return bars.length === 0 ? null : charts.modelBars({ caption, bars, title, text });
  }

  function machineText({ processor, features, threads } = {}) {
    return [processor, features, formats.isNumber(threads) ? formats.plural(threads, "thread") : null].filter(Boolean).join(", ");
  }

  function dataText({ file, samples } = {}) {
    return [file, formats.isNumber(samples) ? formats.plural(samples, "sample") : null].filter(Boolean).join(", ");
  }

  function origin({ machine, data, command, date, tsq, torch, models }) {
    const entries = [
      ...outputEntries(models ?? []),
      ["Machine", machineText(machine ?? {})],
      ["Data", dataText(data ?? {})],
      ["Command", command ? make("code", {}, command) : ""],
      ["Made", date ?? ""],
      ["Versions", [tsq && `tsq ${tsq}`, torch && `LibTorch ${torch}`].filter(Boolean).join(", ")],
    ].filter(([, value]) => value !== "");
    return make("dl", {}, entries.map(([label, value]) => make("div", {}, make("dt", {}, label), make("dd", {}, value))));
  }

  function show(section) {
    const { models } = report.data;
    if (models.length === 0) section.append(make("p", { class: "note" }, "The report has no model."));
    else section.append(modelTable(models));
    section.append(make("div", { class: "charts" }, accuracyCharts(models),
      barChart(models, "File sizes", "size", ({ bytes }) => bytes, formats.bytes),
      barChart(models, "Latencies", "latency", ({ latency }) => latency?.median_seconds, formats.seconds)));
    section.append(origin(report.data));
  }

  report.summaryView = { name: "summary", title: "Summary", isOffered: ({ models, frontier }) => models.length > 0 || !frontier, show };
})((globalThis.tsqReport ??= {}));
