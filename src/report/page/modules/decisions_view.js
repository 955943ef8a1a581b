// The view "Decisions": each operator of the user's model, the kernel that it has become, or why it stays float.
(function (report) {
  "use strict";

  const { formats } = report;

  function outcome(decision) {
    if (!decision) return formats.DASH;
    return decision.quantized ? decision.kernel || "int8" : "float";
  }

  const sentence = (decision) => [decision?.reason, decision?.remedy, ...(decision?.notes ?? [])].filter(Boolean).join(" – ");

  function qconfigText(decision) {
    if (!decision?.qconfig) return "";
    return decision.qconfig_source ? `${decision.qconfig} (${decision.qconfig_source})` : decision.qconfig;
  }

  const first = ({ rows }) => rows.find((row) => row !== undefined);

  // [title, text of a decision]
  const PARTS = [
    ["Becomes", outcome],
    ["Reason", sentence],
    ["QConfig", qconfigText],
  ];

  function columnsFor(models, entries) {
    const common = [
      { title: "Layer", value: (entry) => first(entry).layer, isHeader: true, content: (entry) => report.layerLink(first(entry).layer) },
      { title: "Operator", value: (entry) => first(entry).operator },
      { title: "Node", value: (entry) => first(entry).node },
    ];
    const isUsed = ([, text]) => entries.some(({ rows }) => rows.some((row) => text(row) !== ""));
    return [...common, ...PARTS.filter(isUsed).flatMap(([title, text]) => columnsOf(models, title, text))];
  }

  // The same part of a decision, once for each model.
  function columnsOf(models, title, text) {
    return models.map((model, column) => ({
      title: models.length > 1 ? `${title}, ${model.name}` : title,
      value: ({ rows }) => text(rows[column]),
      differs: (entry) => areDifferent(entry, text),
    }));
  }

  const areDifferent = ({ rows }, text) => new Set(rows.map(text)).size > 1;
  const isDifferent = (entry) => PARTS.some(([, text]) => areDifferent(entry, text));
  const staysFloat = ({ rows }) => rows.some((row) => row && !row.quantized);

  function show(section) {
    const models = report.int8Models().filter(({ decisions }) => decisions.length > 0);
    if (models.length === 0) return;
    const entries = report.sideBySide(models, ({ decisions }) => decisions, ({ node, layer }) => `${layer ?? ""}\u0000${node ?? ""}`);
    const choices = [{ label: "float only", keeps: staysFloat }];
    if (models.length > 1) choices.push({ label: "differences only", keeps: isDifferent });
    section.append(report.table({ caption: "Decisions", columns: columnsFor(models, entries), rows: entries, choices }));
  }

  report.decisionsView = {
    name: "decisions",
    title: "Decisions",
    isOffered: ({ models }) => models.some(({ decisions }) => decisions.length > 0),
    show,
    emptyText: "This file does not say how its operators were decided on: it was not made by tsq, or by a version without that record.",
  };
})((globalThis.tsqReport ??= {}));
