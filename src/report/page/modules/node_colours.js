// What the nodes of a graph look like: by the numbers they compute with, by time or by noise.
(function (report) {
  "use strict";

  const { formats, theme } = report;

  // Shape beside colour, for those who do not see the difference of the colours.
  const NUMBERS = [
    { name: "int8", label: "int8", shape: "round-rectangle" },
    { name: "float", label: "float", shape: "rectangle" },
    { name: "conversion", label: "conversion", shape: "cut-rectangle" },
    { name: "other", label: "other", shape: "barrel" },
  ];
  const shapeOf = (numbers) => (NUMBERS.find(({ name }) => name === numbers) ?? NUMBERS.at(-1)).shape;

  const MODES = [
    { name: "numbers", label: "int8 or float" },
    { name: "seconds", label: "time", scale: "time", format: formats.seconds, share: timeShare },
    { name: "sqnr", label: "SQNR", scale: "noise", format: formats.decibels, share: noiseShare },
    { name: "alone", label: "SQNR alone", scale: "noise", format: formats.decibels, share: noiseShare },
  ];

  // On a logarithmic scale, since times of operators differ by factors, and a group takes as long as all of its operators.
  function timeShare(value, { low, high }) {
    return high > low && value > 0 ? Math.log(value / low) / Math.log(high / low) : 0;
  }

  // The noisiest draws attention.
  function noiseShare(value, { low, high }) {
    return high > low ? (high - value) / (high - low) : 0;
  }

  function valueText({ sums }, modeName) {
    const mode = MODES.find(({ name }) => name === modeName);
    return mode.format === undefined || sums[mode.name] === null ? "" : mode.format(sums[mode.name]);
  }

  // What the colours of a mode reach from and to in a tree.
  function domain(tree, mode) {
    const isShown = (value) => formats.isNumber(value) && (mode.scale !== "time" || value > 0);
    const values = tree.leaves.map((leaf) => leaf.sums[mode.name]).filter(isShown);
    if (values.length === 0) return null;
    const low = values.reduce((least, value) => Math.min(least, value));
    const high = mode.scale === "time" ? tree.root.sums.seconds : values.reduce((most, value) => Math.max(most, value));
    return { low, high };
  }

  // Returns a function that returns {fill, ink, stripes?} for a node of the tree.
  function painter(tree, modeName) {
    const mode = MODES.find(({ name }) => name === modeName);
    if (mode.name === "numbers") return paintNumbers;
    const reach = domain(tree, mode);
    const colours = theme.scaleColours(mode.scale);
    const unknown = theme.colour("unknown");
    return ({ sums }) => {
      const value = sums[mode.name];
      const fill = value === null || reach === null ? unknown : theme.onScale(colours, mode.share(value, reach));
      return { fill, ink: theme.inkOn(fill) };
    };
  }

  function paintNumbers({ sums }) {
    const present = NUMBERS.filter(({ name }) => sums.numbers[name] > 0);
    const fill = theme.colour(present.length > 0 ? present[0].name : "other");
    if (present.length < 2) return { fill, ink: theme.inkOn(fill) };
    return { fill, ink: theme.colour("ink"), stripes: stripesOf(present, sums) };
  }

  // A group of several kinds has a stripe of each, as wide as its share of the operators.
  function stripesOf(present, sums) {
    const colours = [];
    const ends = [];
    const total = present.reduce((count, { name }) => count + sums.numbers[name], 0);
    let before = 0;
    for (const { name } of present) {
      const after = before + sums.numbers[name];
      colours.push(theme.colour(name), theme.colour(name));
      ends.push(`${(100 * before) / total}%`, `${(100 * after) / total}%`);
      before = after;
    }
    return { colours: colours.join(" "), ends: ends.join(" ") };
  }

  // [{label, colour}, …] for numbers; {from, to, colours} for a scale; null where the model has no such values.
  function legend(tree, modeName) {
    const mode = MODES.find(({ name }) => name === modeName);
    if (mode.name === "numbers") return { kinds: NUMBERS.map(({ name, label }) => ({ name, label, colour: theme.colour(name) })) };
    const reach = domain(tree, mode);
    if (reach === null) return null;
    const ends = mode.scale === "noise" ? [reach.high, reach.low] : [reach.low, reach.high];
    return { ends: ends.map(mode.format), colours: theme.scaleColours(mode.scale) };
  }

  report.nodeColours = { MODES, painter, legend, valueText, shapeOf };
})((globalThis.tsqReport ??= {}));
