// Charts by Chart.js. Each is a figure with a caption; its figures also stand in a table, which screen readers are told.
(function (report) {
  "use strict";

  const { make, formats } = report;
  const drawn = new Map();

  Chart.defaults.animation = false;
  Chart.defaults.maintainAspectRatio = false;
  Chart.defaults.font.family = "system-ui, sans-serif";

  function applyTheme() {
    Chart.defaults.color = report.theme.colour("muted");
    Chart.defaults.borderColor = report.theme.colour("line");
  }

  function destroyRemoved() {
    for (const [canvas, { chart }] of drawn) {
      if (canvas.isConnected) continue;
      chart.destroy();
      drawn.delete(canvas);
    }
  }

  function draw(canvas, configure) {
    applyTheme();
    drawn.get(canvas)?.chart.destroy();
    drawn.set(canvas, { chart: new Chart(canvas, configure()), configure });
  }

  report.theme.onThemeChange(() => {
    destroyRemoved();
    for (const [canvas, { configure }] of drawn) draw(canvas, configure);
  });

  // The chart is drawn as soon as the figure is part of the page, since only then it has a size.
  function figure(caption, configure, height = 260) {
    const canvas = make("canvas", { role: "img", "aria-label": caption });
    const frame = make("div", { style: `height:${height}px` }, canvas);
    const element = make("figure", { class: "chart" }, make("figcaption", {}, caption), frame);
    requestAnimationFrame(() => {
      destroyRemoved();
      if (canvas.isConnected) draw(canvas, configure);
    });
    return element;
  }

  Chart.defaults.plugins.legend.labels.usePointStyle = true;

  // What an axis shows, with some room around the values, but not beyond a limit of what they can be.
  function reach(values, limit = Infinity) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = Math.max(0.2 * (high - low), 0.02 * Math.abs(high), Number.MIN_VALUE);
    return { suggestedMin: low - room, suggestedMax: Math.min(high + room, limit) };
  }

  function axis(title, more = {}) {
    return { title: { display: true, text: title }, ...more };
  }

  const modelColour = (index) => report.theme.colour(`series-${index % 6}`);
  const MARKS = ["circle", "rect", "triangle", "rectRot", "star", "cross"];
  const modelMark = (index) => MARKS[index % MARKS.length];

  // Points of models: {label, index, x, y}. `reference` is a value of x that gets a line across the chart.
  function modelScatter({ caption, points, reference, xTitle, yTitle, xText, yText, yLimit }) {
    const heights = reach(points.map(({ y }) => y), yLimit);
    return figure(caption, () => ({
      type: "scatter",
      data: { datasets: [...points.map(scatterSeries), ...referenceSeries(heights, reference)] },
      options: {
        scales: {
          x: axis(xTitle, { beginAtZero: true, grace: "5%", ticks: { callback: formats.tick(xText) } }),
          y: axis(yTitle, { ...heights, ticks: { callback: formats.tick(yText) } }),
        },
        plugins: { tooltip: { callbacks: { label: ({ dataset, raw }) => `${dataset.label}: ${xText(raw.x)}, ${yText(raw.y)}` } } },
      },
    }));
  }

  function scatterSeries({ label, index, x, y }) {
    const colour = modelColour(index);
    return {
      label,
      data: [{ x, y }],
      backgroundColor: colour,
      borderColor: colour,
      pointStyle: modelMark(index),
      radius: 8,
      hoverRadius: 10,
      clip: 10,
    };
  }

  function referenceSeries({ suggestedMin, suggestedMax }, reference) {
    if (reference === undefined) return [];
    const data = [suggestedMin, suggestedMax].map((y) => ({ x: reference.x, y }));
    return [{ ...lineSeries(reference.label, data, report.theme.colour("muted")), borderDash: [5, 5] }];
  }

  // A line without marks.
  function lineSeries(label, data, colour) {
    return { type: "line", label, data, borderColor: colour, backgroundColor: colour, borderWidth: 2, radius: 0, pointStyle: "line" };
  }

  // Horizontal bars: {label, index, value}.
  function modelBars({ caption, bars, title, text }) {
    return figure(caption, () => ({
      type: "bar",
      data: {
        labels: bars.map(({ label }) => formats.shortened(label, 28)),
        datasets: [{
          data: bars.map(({ value }) => value),
          backgroundColor: bars.map(({ index }) => modelColour(index)),
          maxBarThickness: 32,
        }],
      },
      options: {
        indexAxis: "y",
        scales: {
          x: axis(title, { beginAtZero: true, ticks: { callback: formats.tick(text), maxTicksLimit: 6 } }),
          y: { grid: { display: false } },
        },
        plugins: { legend: { display: false }, tooltip: { callbacks: { label: ({ raw }) => text(raw) } } },
      },
    }), 90 + 44 * bars.length);
  }

  // More layers than this are closer than a bar or a mark is wide.
  const DENSE_LAYERS = 300;

  // One value or several for each layer, in the order of the flow. series: [{label, values, kind: "line" | "points" | "bars", index}, …]
  function layerChart({ caption, layers, series, title, text, onLayer }) {
    return figure(caption, () => ({
      type: "bar",
      data: { labels: layers, datasets: series.map(layerSeries) },
      options: {
        interaction: { mode: "index", intersect: false },
        onClick: (event, elements) => elements.length > 0 && onLayer(layers[elements[0].index]),
        scales: {
          x: { ticks: { maxRotation: 45, callback: (value) => formats.shortened(layers[value], 16) }, grid: { display: false } },
          y: axis(title, { ticks: { callback: formats.tick(text) } }),
        },
        plugins: { tooltip: { callbacks: { label: ({ dataset, raw }) => `${dataset.label}: ${text(raw)}` } } },
      },
    }), 300);
  }

  function layerSeries({ label, values, kind, index }) {
    const colour = modelColour(index);
    const common = { label, data: values, borderColor: colour, backgroundColor: colour };
    const isDense = values.length > DENSE_LAYERS;
    if (kind === "bars" && !isDense) return { ...common, type: "bar", pointStyle: "rect" };
    const radius = isDense ? 0.5 : 3;
    const look = { type: "line", pointRadius: radius, borderWidth: 1.5, pointStyle: modelMark(index) };
    if (kind !== "points") return { ...common, ...look };
    return { ...common, ...look, showLine: false, backgroundColor: "transparent", pointRadius: isDense ? 1 : 5 };
  }

  function binsOf({ low, high, counts }) {
    const width = (high - low) / counts.length;
    return counts.map((count, bin) => ({ x: low + (bin + 0.5) * width, y: count }));
  }

  // Two vertical lines in one series: the point between them has no place.
  function rangeLines([low, high], top) {
    const data = [{ x: low, y: 0.5 }, { x: low, y: top }, { x: low, y: NaN }, { x: high, y: 0.5 }, { x: high, y: top }];
    return lineSeries("range of the codes", data, report.theme.colour("range"));
  }

  function barsOf(label, bins, colour) {
    const wholeWidth = { grouped: false, barPercentage: 1, categoryPercentage: 1 };
    return { type: "bar", label, data: bins, backgroundColor: colour, pointStyle: "rect", ...wholeWidth };
  }

  // The float values, and where the range of the codes is known, those outside it in another colour.
  function histogramSeries(data, range, index) {
    const bins = binsOf(data);
    const colour = modelColour(index);
    if (range === null) return [barsOf("float values", bins, colour)];
    const isOutside = ({ x }) => x < range[0] || x > range[1];
    const emptied = (isLeftOut) => bins.map((bin) => (isLeftOut(bin) ? { ...bin, y: null } : bin));
    return [
      rangeLines(range, Math.max(1, ...data.counts)),
      barsOf("float values", emptied(isOutside), colour),
      barsOf("outside", emptied((bin) => !isOutside(bin)), report.theme.colour("outside")),
    ];
  }

  // histogram: {low, high, counts, range}.
  function histogram(caption, data, index) {
    const range = Array.isArray(data.range) && data.range.length === 2 && data.range.every(formats.isNumber) ? data.range : null;
    const ends = [data.low, data.high, ...(range ?? [])];
    const limits = { min: Math.min(...ends), max: Math.max(...ends) };
    return figure(caption, () => ({
      type: "bar",
      data: { datasets: histogramSeries(data, range, index) },
      options: {
        scales: {
          x: axis("value", { type: "linear", ...limits, offset: false, ticks: { callback: formats.number } }),
          y: axis("values, logarithmic", { type: "logarithmic", min: 0.5, ticks: { callback: countTick } }),
        },
        plugins: { tooltip: { callbacks: { title: ([{ parsed }]) => formats.number(parsed.x) } } },
      },
    }), 210);
  }

  const countTick = (value) => (Number.isInteger(Math.log10(value)) ? formats.count(value) : "");

  function hasHistogram(data) {
    const hasCounts = Array.isArray(data?.counts) && data.counts.length > 0;
    return hasCounts && formats.isNumber(data.low) && formats.isNumber(data.high);
  }

  report.charts = { modelScatter, modelBars, layerChart, histogram, hasHistogram };
})((globalThis.tsqReport ??= {}));
