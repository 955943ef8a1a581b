// The view "Frontier": models between the fastest and the most accurate one.
(function (report) {
  "use strict";

  const { charts, formats } = report;

  const agreements = ({ trial }) => (trial.outputs ?? []).map(({ decisions }) => decisions).filter((of) => of?.judged_by && of.rows > 0);

  // Of the output that has the least.
  function agreement(point) {
    const shares = agreements(point).map(({ agreed, rows }) => agreed / rows);
    return shares.length > 0 ? Math.min(...shares) : null;
  }

  const COLUMNS = [
    { title: "Model", value: ({ number }) => number, text: String },
    { title: "Time", value: ({ seconds }) => seconds, text: formats.seconds },
    { title: "Predicted, one thread", value: ({ predicted }) => predicted.seconds, text: formats.seconds },
    { title: "Speed of float", value: ({ latency }) => latency?.ratio, text: formats.ratio },
    { title: "SQNR", value: ({ trial }) => trial.sqnr_db, text: formats.decibels },
    { title: "Predicted", value: ({ predicted }) => -10 * Math.log10(predicted.noise), text: formats.decibels },
    { title: "Agreement", value: agreement, text: formats.percent },
    { title: "Work in int8", value: (point) => point.int8_macs_share, text: formats.percent },
    { title: "Size", value: ({ bytes }) => bytes, text: formats.bytes },
  ];

  const columns = COLUMNS.map((column) => ({ ...column, isNumber: true, content: (row) => column.text(column.value(row)) }));

  function show(section) {
    const points = report.data.frontier.map((point, index) => ({ ...point, number: index + 1 }));
    const places = points
      .filter(({ trial }) => formats.isNumber(trial.sqnr_db))
      .map((point, index) => ({ label: `model ${point.number}`, index, x: point.seconds, y: point.trial.sqnr_db }));
    if (places.length > 0)
      section.append(charts.modelScatter({
        caption: "SQNR against time", points: places, xTitle: "time", xText: formats.seconds, yTitle: "SQNR", yText: formats.decibels,
      }));
    section.append(report.table({ caption: "Models", columns, rows: points }));
  }

  report.frontierView = {
    name: "frontier",
    title: "Frontier",
    isOffered: ({ frontier }) => (frontier ?? []).length > 0,
    show,
  };
})((globalThis.tsqReport ??= {}));
