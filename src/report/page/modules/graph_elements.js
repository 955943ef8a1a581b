// The elements of a graph as cytoscape takes them: nodes, edges, their labels and their style.
(function (report) {
  "use strict";

  const { formats, tree: trees, layout, nodeColours } = report;
  const { isGroup, shownFor } = trees;
  const FONT = "system-ui, sans-serif";
  const FONT_SIZE = 13;
  const measure = document.createElement("canvas").getContext("2d");

  function nodeStyle(colour) {
    return {
      width: layout.NODE.width,
      height: layout.NODE.height,
      color: colour("ink"),
      "background-color": colour("unknown"),
      "border-width": 1,
      "border-color": colour("edge"),
      "font-family": FONT,
      "font-size": FONT_SIZE,
      "min-zoomed-font-size": 4,
      "line-height": 1.15,
      "text-wrap": "wrap",
      "text-max-width": layout.NODE.width - 8,
      "text-valign": "center",
      "text-halign": "center",
    };
  }

  // A group of several kinds of numbers: stripes, on which the label needs a ground of its own.
  function stripedStyle(colour) {
    return {
      "background-fill": "linear-gradient",
      "background-gradient-direction": "to-right",
      "background-gradient-stop-colors": (node) => node.data("stripes").colours,
      "background-gradient-stop-positions": (node) => node.data("stripes").ends,
      "text-background-color": colour("surface"),
      "text-background-opacity": 0.85,
      "text-background-padding": 3,
      "text-background-shape": "round-rectangle",
    };
  }

  function openGroupStyle(colour) {
    return {
      shape: "round-rectangle",
      padding: layout.PADDING,
      color: colour("ink"),
      "background-color": colour("group"),
      "background-opacity": 0.5,
      "text-valign": "top",
      "text-margin-y": -2,
      "text-margin-x": "data(shift)",
      "text-wrap": "ellipsis",
      "text-max-width": "data(room)",
    };
  }

  function edgeStyle(colour) {
    return {
      width: 1.5,
      "line-color": colour("edge"),
      "target-arrow-color": colour("edge"),
      "target-arrow-shape": "triangle",
      "arrow-scale": 0.8,
      "curve-style": "straight",
    };
  }

  const BENT_EDGE = {
    "curve-style": "round-segments",
    "segment-weights": (edge) => edge.data("weights"),
    "segment-distances": (edge) => edge.data("distances"),
    "edge-distances": "node-position",
  };

  function currentStyle(colour) {
    return {
      "border-width": 3,
      "border-style": "solid",
      "border-color": colour("ink"),
      "outline-width": 5,
      "outline-color": colour("accent"),
      "outline-offset": 2,
      "z-index": 10,
    };
  }

  function graphStyle() {
    const { colour } = report.theme;
    const near = { width: 3, "line-color": colour("accent"), "target-arrow-color": colour("accent"), "z-index": 5 };
    return [
      { selector: "node", style: nodeStyle(colour) },
      { selector: "node[label]", style: { label: "data(label)" } },
      { selector: "node[shape]", style: { shape: "data(shape)" } },
      { selector: "node[fill]", style: { "background-color": "data(fill)", color: "data(ink)" } },
      { selector: "node[stripes]", style: stripedStyle(colour) },
      { selector: "node.closed", style: { "border-width": 3, "border-style": "double", "font-weight": "bold" } },
      { selector: "node.open", style: openGroupStyle(colour) },
      { selector: "edge", style: edgeStyle(colour) },
      { selector: "edge[distances]", style: BENT_EDGE },
      { selector: "edge.near", style: near },
      { selector: "node.found", style: { "outline-width": 4, "outline-color": colour("found"), "outline-offset": 1 } },
      { selector: "node.current", style: currentStyle(colour) },
      { selector: "core", style: { "active-bg-opacity": 0 } },
      { selector: "node:active, edge:active", style: { "overlay-opacity": 0 } },
    ];
  }

  const knownValues = ({ seconds, sqnr }) => [formats.seconds(seconds), formats.decibels(sqnr)].filter((text) => text !== formats.DASH);

  function groupLines({ label, sums }) {
    return [`▸ ${formats.shortened(label, 24)}`, formats.plural(sums.count, "operator"), knownValues(sums).join(" · ")];
  }

  // The kernel, and the layer as seen from the group around it.
  function operatorLines(node) {
    const { kind, layer } = node.operator;
    const outside = node.parent.path;
    const within = outside !== "" && `${layer}.`.startsWith(`${outside}.`) ? layer.slice(outside.length + 1) : layer;
    return [formats.shortened(kind.split("::").at(-1) || kind, 26), formats.shortened(within, 28)];
  }

  // The value that the colour stands for is also written.
  function labelOf(node, mode) {
    const lines = isGroup(node) ? groupLines(node) : [...operatorLines(node), nodeColours.valueText(node, mode)];
    return lines.filter(Boolean).join("\n");
  }

  // What a screen reader says of a node.
  function spokenText(node) {
    const values = knownValues(node.sums).join(", ");
    if (isGroup(node)) {
      const state = node.isOpen ? "open" : "closed";
      return [`Group ${node.label}`, state, formats.plural(node.sums.count, "operator"), values].filter(Boolean).join(", ");
    }
    const { kind, layer, numbers, inputs, outputs } = node.operator;
    const ends = [formats.plural(inputs.length, "input"), formats.plural(outputs.length, "output")];
    return [kind, layer, numbers, values, ...ends].filter(Boolean).join(", ");
  }

  const parentData = (node) => (node.parent.parent === null ? {} : { parent: node.parent.key });

  function nodeElement(node, centres) {
    const shape = isGroup(node) ? "round-rectangle" : nodeColours.shapeOf(node.operator.numbers);
    const data = { id: node.key, shape, ...parentData(node) };
    return { group: "nodes", data, position: { ...centres.get(node.key) }, classes: isGroup(node) ? "closed" : "" };
  }

  // The name stands at the left, where no edge crosses it: cytoscape centres it, and it is shifted from there.
  function openGroupElement(group) {
    const label = `▾ ${group.label}`;
    const room = layout.innerWidth(group);
    measure.font = `${FONT_SIZE}px ${FONT}`;
    const shift = Math.min(0, measure.measureText(label).width - room) / 2;
    return { group: "nodes", data: { id: group.key, label, room, shift, ...parentData(group) }, classes: "open" };
  }

  // Bends as cytoscape takes them: along the straight line between the ends, and away from it.
  function relativeBends(start, end, bends) {
    const [dx, dy] = [end.x - start.x, end.y - start.y];
    const length = Math.hypot(dx, dy) || 1;
    return {
      weights: bends.map(({ x, y }) => ((x - start.x) * dx + (y - start.y) * dy) / length ** 2),
      distances: bends.map(({ x, y }) => ((y - start.y) * dx - (x - start.x) * dy) / length),
    };
  }

  function edgeElement({ key, from, to, bends }, centres) {
    const data = { id: `edge ${key}`, source: from.key, target: to.key };
    if (bends.length > 0) Object.assign(data, relativeBends(centres.get(from.key), centres.get(to.key), bends));
    return { group: "edges", data };
  }

  function graphElements(tree, operators) {
    const { centres, edges } = layout.graphLayout(tree, operators);
    const openGroups = trees.groupsIn(tree.root).filter((group) => group.isOpen && shownFor(group) === group);
    return [
      ...openGroups.map(openGroupElement),
      ...trees.shownNodes(tree.root).map((node) => nodeElement(node, centres)),
      ...edges.map((edge) => edgeElement(edge, centres)),
    ];
  }

  Object.assign(report, { graphStyle, graphElements, labelOf, spokenText });
})((globalThis.tsqReport ??= {}));
