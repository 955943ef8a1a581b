// Numbers as text. What the data does not have is a dash.
(function (report) {
  "use strict";

  const DASH = "–";
  const NO_BREAK = "\u00a0";

  function isNumber(value) {
    return typeof value === "number" && Number.isFinite(value);
  }

  function withUnit(value, digits, unit) {
    return value.toFixed(digits) + NO_BREAK + unit;
  }

  function digitsFor(value) {
    const size = Math.abs(value);
    return size >= 100 ? 0 : size >= 10 ? 1 : 2;
  }

  function scaled(value, steps) {
    if (value === 0) return withUnit(0, 0, steps.find(([factor]) => factor === 1)[1]);
    const [factor, unit] = steps.find(([step]) => Math.abs(value) >= step) ?? steps.at(-1);
    return withUnit(value / factor, digitsFor(value / factor), unit);
  }

  const optional = (format) => (value) => (isNumber(value) ? format(value) : DASH);

  function decibels(value) {
    return value === Infinity ? `∞${NO_BREAK}dB` : optional((number) => withUnit(number, 1, "dB"))(value);
  }

  const formats = {
    DASH,
    isNumber,
    seconds: optional((value) => scaled(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]])),
    bytes: optional((value) => scaled(value, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]])),
    decibels,
    percent: optional((value) => withUnit(100 * value, Math.abs(value) < 0.1 ? 2 : 1, "%")),
    ratio: optional((value) => withUnit(value, 2, "×")),
    count: optional((value) => value.toLocaleString("en")),
    number: optional((value) => String(Number(value.toPrecision(4)))),
    shape: (shape) => (Array.isArray(shape) ? `[${shape.join(", ")}]` : DASH),
    text: (value) => (value === null || value === undefined || value === "" ? DASH : String(value)),
    plural: (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`,
    // For axes, where "2.00 ms" is "2 ms".
    tick: (format) => (value) => format(value).replace(/\.0+(?=\u00a0)/, ""),
    // The middle goes, since both the first and the last part of a path tell what it is.
    shortened(text, length) {
      if (text.length <= length) return text;
      const kept = length - 1;
      return `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
    },
  };

  report.formats = formats;
})((globalThis.tsqReport ??= {}));
