// Colours: the properties of report.css, which has a light and a dark scheme, as values for canvases.
(function (report) {
  "use strict";

  const dark = matchMedia("(prefers-color-scheme: dark)");

  // A property such as "--int8", without the dashes.
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  function channels(hex) {
    return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
  }

  function mixed(from, to, share) {
    const [start, end] = [channels(from), channels(to)];
    const hex = start.map((value, index) => Math.round(value + (end[index] - value) * share).toString(16).padStart(2, "0"));
    return `#${hex.join("")}`;
  }

  const STEPS = 5;

  // The five colours of a scale, from the least to the most that draws attention.
  function scaleColours(name) {
    return Array.from({ length: STEPS }, (_, index) => colour(`${name}-${index}`));
  }

  function onScale(colours, share) {
    const place = Math.min(Math.max(share, 0), 1) * (STEPS - 1);
    const step = Math.min(Math.floor(place), STEPS - 2);
    return mixed(colours[step], colours[step + 1], place - step);
  }

  // Relative luminance of WCAG 2, where 0.179 is equally far from black and white.
  function inkOn(hex) {
    const [red, green, blue] = channels(hex).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
  }

  function onThemeChange(action) {
    dark.addEventListener("change", action);
  }

  report.theme = { colour, scaleColours, onScale, inkOn, onThemeChange };
})((globalThis.tsqReport ??= {}));
