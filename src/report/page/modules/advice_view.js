// The view "Advice": what the detectors have found, and the QConfigMapping that follows from it.
(function (report) {
  "use strict";

  const { make, button, formats } = report;

  async function copy(text, source) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      getSelection().selectAllChildren(source);
      return document.execCommand("copy");
    }
  }

  function mappingCell(mapping) {
    if (!mapping) return formats.DASH;
    const text = JSON.stringify(mapping, null, 2);
    const source = make("pre", {}, text);
    const details = make("details", {}, make("summary", {}, "Show"), source);
    const status = make("span", { class: "found", role: "status" });
    const onCopy = async () => {
      details.open = true;
      status.textContent = (await copy(text, source)) ? "Copied" : "The browser does not allow it: copy the text below";
    };
    return make("div", {}, button("Copy QConfigMapping", onCopy), status, details);
  }

  const first = ({ rows }) => rows.find((row) => row !== undefined);
  const isInAll = ({ rows }) => rows.every((row) => row !== undefined);

  // Two models have the same finding where the same is said of a layer before the colon: figures follow after it.
  const keyOf = ({ layer, finding }) => `${layer}\u0000${String(finding).split(":")[0]}`;

  // What is of one model each; what was found in one of two models only is marked.
  function columnsOf(models, title, name) {
    return models.map((model, column) => ({
      title: models.length > 1 ? `${title}, ${model.name}` : title,
      value: ({ rows }) => rows[column]?.[name],
      differs: (entry) => !isInAll(entry),
    }));
  }

  function columnsFor(models) {
    return [
      { title: "Layer", value: (entry) => first(entry).layer, isHeader: true, content: (entry) => report.layerLink(first(entry).layer) },
      ...columnsOf(models, "Finding", "finding"),
      ...columnsOf(models, "Figures", "figures"),
      { title: "Advice", value: (entry) => first(entry).advice },
      {
        title: "QConfigMapping",
        value: (entry) => (first(entry).mapping ? JSON.stringify(first(entry).mapping) : ""),
        content: (entry) => mappingCell(first(entry).mapping),
      },
    ];
  }

  function show(section) {
    const models = report.int8Models();
    const rows = report.sideBySide(models, ({ advice }) => advice, keyOf);
    if (rows.length > 0) section.append(report.table({ caption: "Advice", columns: columnsFor(models), rows }));
  }

  report.adviceView = {
    name: "advice",
    title: "Advice",
    isOffered: ({ models }) => models.some(({ advice }) => advice.length > 0),
    show,
    emptyText: "The detectors have found nothing in this model.",
  };
})((globalThis.tsqReport ??= {}));
