// One graph: the operators of one model, drawn by cytoscape, moved through by mouse, touch or keyboard.
(function (report) {
  "use strict";

  const { make, formats, panel, tree: trees, layout, nodeColours } = report;
  const { isGroup, shownFor } = trees;
  // Below this zoom the labels cannot be read.
  const READABLE_ZOOM = 0.8;

  const FONT_SIZE = 13;
  const measure = document.createElement("canvas").getContext("2d");

  const KEYS = "Arrow keys go along the data flow, Enter opens a group or shows an operator, Backspace closes a group, + and - zoom, 0 fits the graph.";

  function style() {
    const { colour } = report.theme;
    return [
      {
        selector: "node",
        style: {
          width: layout.NODE.width,
          height: layout.NODE.height,
          color: colour("ink"),
          "background-color": colour("unknown"),
          "border-width": 1,
          "border-color": colour("edge"),
          "font-family": "system-ui, sans-serif",
          "font-size": FONT_SIZE,
          "min-zoomed-font-size": 4,
          "line-height": 1.15,
          "text-wrap": "wrap",
          "text-max-width": layout.NODE.width - 8,
          "text-valign": "center",
          "text-halign": "center",
        },
      },
      { selector: "node[label]", style: { label: "data(label)" } },
      { selector: "node[shape]", style: { shape: "data(shape)" } },
      { selector: "node[fill]", style: { "background-color": "data(fill)", color: "data(ink)" } },
      {
        selector: "node[stripes]",
        style: {
          "background-fill": "linear-gradient",
          "background-gradient-direction": "to-right",
          "background-gradient-stop-colors": (node) => node.data("stripes").colours,
          "background-gradient-stop-positions": (node) => node.data("stripes").ends,
          "text-background-color": colour("surface"),
          "text-background-opacity": 0.85,
          "text-background-padding": 3,
          "text-background-shape": "round-rectangle",
        },
      },
      { selector: "node.closed", style: { "border-width": 3, "border-style": "double", "font-weight": "bold" } },
      {
        selector: "node.open",
        style: {
          shape: "round-rectangle",
          padding: layout.PADDING,
          "background-color": colour("group"),
          "background-opacity": 0.5,
          color: colour("ink"),
          "text-valign": "top",
          "text-margin-y": -2,
          "text-margin-x": "data(shift)",
          "text-wrap": "ellipsis",
          "text-max-width": "data(room)",
        },
      },
      { selector: "edge", style: { width: 1.5, "line-color": colour("edge"), "target-arrow-color": colour("edge"), "target-arrow-shape": "triangle", "curve-style": "straight", "arrow-scale": 0.8 } },
      { selector: "edge[distances]", style: { "curve-style": "round-segments", "segment-weights": (edge) => edge.data("weights"), "segment-distances": (edge) => edge.data("distances"), "edge-distances": "node-position" } },
      { selector: "edge.near", style: { width: 3, "line-color": colour("accent"), "target-arrow-color": colour("accent"), "z-index": 5 } },
      { selector: "node.found", style: { "outline-width": 4, "outline-color": colour("found"), "outline-offset": 1 } },
      { selector: "node.current", style: { "border-width": 3, "border-style": "solid", "border-color": colour("ink"), "outline-width": 5, "outline-color": colour("accent"), "outline-offset": 2, "z-index": 10 } },
      { selector: "core", style: { "active-bg-opacity": 0, "selection-box-opacity": 0 } },
      { selector: "node:active, edge:active", style: { "overlay-opacity": 0 } },
    ];
  }

  function groupLines({ label, sums }) {
    const values = [formats.seconds(sums.seconds), formats.decibels(sums.sqnr)].filter((text) => text !== formats.DASH);
    return [`▸ ${formats.shortened(label, 24)}`, formats.plural(sums.count, "operator"), values.join(" · ")];
  }

  function operatorLines(node) {
    const { kind, layer } = node.operator;
    const outside = node.parent.path;
    const within = outside !== "" && `${layer}.`.startsWith(`${outside}.`) ? layer.slice(outside.length + 1) : layer;
    const kernel = kind.split("::").at(-1);
    return [formats.shortened(kernel || kind, 26), formats.shortened(within, 28)];
  }

  // The value that the colour stands for is also written.
  function labelOf(node, mode) {
    if (isGroup(node)) return groupLines(node).filter(Boolean).join("\n");
    return [...operatorLines(node), nodeColours.valueText(node, mode)].filter(Boolean).join("\n");
  }

  function spoken(node) {
    const { sums } = node;
    const values = [formats.seconds(sums.seconds), formats.decibels(sums.sqnr)].filter((text) => text !== formats.DASH).join(", ");
    if (isGroup(node)) return `Group ${node.label}, ${node.isOpen ? "open" : "closed"}, ${formats.plural(sums.count, "operator")}${values && `, ${values}`}`;
    const { kind, layer, numbers, inputs, outputs } = node.operator;
    return [kind, layer, numbers, values, `${formats.plural(inputs.length, "input")}, ${formats.plural(outputs.length, "output")}`].filter(Boolean).join(", ");
  }

  // Bends as cytoscape takes them: along the straight line between the ends, and away from it.
  function relativeBends(start, end, bends) {
    const [dx, dy] = [end.x - start.x, end.y - start.y];
    const length = Math.hypot(dx, dy) || 1;
    const weights = bends.map(({ x, y }) => ((x - start.x) * dx + (y - start.y) * dy) / length ** 2);
    const distances = bends.map(({ x, y }) => ((y - start.y) * dx - (x - start.x) * dy) / length);
    return { weights, distances };
  }

  function nodeElement(node, centres) {
    const data = { id: node.key };
    if (node.parent.parent !== null) data.parent = node.parent.key;
    data.shape = isGroup(node) ? "round-rectangle" : nodeColours.shapeOf(node.operator.numbers);
    return { group: "nodes", data, position: { ...centres.get(node.key) }, classes: isGroup(node) ? "closed" : "" };
  }

  // The name stands at the left, where no edge crosses it: cytoscape centres it, and it is shifted from there.
  function openGroupElement(group) {
    const label = `▾ ${group.label}`;
    const room = layout.innerWidth(group);
    measure.font = `${FONT_SIZE}px system-ui, sans-serif`;
    const data = { id: group.key, label, room, shift: Math.min(0, measure.measureText(label).width - room) / 2 };
    if (group.parent.parent !== null) data.parent = group.parent.key;
    return { group: "nodes", data, classes: "open" };
  }

  function edgeElement({ key, from, to, bends }, centres) {
    const data = { id: `edge ${key}`, source: from.key, target: to.key };
    if (bends.length > 0) Object.assign(data, relativeBends(centres.get(from.key), centres.get(to.key), bends));
    return { group: "edges", data };
  }

  function elementsOf(tree, operators) {
    const { centres, edges } = layout.graphLayout(tree, operators);
    const shown = trees.shownNodes(tree.root);
    const groups = trees.groupsIn(tree.root).filter((group) => group.isOpen && shownFor(group) === group);
    return [...groups.map(openGroupElement), ...shown.map((node) => nodeElement(node, centres)), ...edges.map((edge) => edgeElement(edge, centres))];
  }

  // Sees a graph that fills `host`. `onCurrent(node)` is told where the reader is.
  function createPane(host, model, { colourBy, onCurrent }) {
    const tree = trees.moduleTree(model.operators);
    const help = make("p", { id: `keys-${model.index}`, class: "only-spoken" }, KEYS);
    const canvas = make("div", {
      class: "graph", tabindex: "0", role: "application", "aria-roledescription": "graph of operators",
      "aria-label": `Operators of ${model.name}`, "aria-describedby": help.id, onkeydown: onKey,
    });
    const legend = make("div", { class: "legend" });
    host.append(help, canvas, legend);

    const cy = cytoscape({ container: canvas, style: style(), autoungrabify: true, autounselectify: true, boxSelectionEnabled: false, minZoom: 0.02, maxZoom: 4 });
    const state = { mode: colourBy, current: null, found: [], place: -1 };
    const observer = new ResizeObserver(onResize);
    observer.observe(canvas);

    cy.on("tap", "node", ({ target }) => onTap(tree.nodes.get(target.id())));
    draw();
    firstView();

    function draw() {
      cy.batch(() => {
        cy.elements().remove();
        cy.add(elementsOf(tree, model.operators));
      });
      paint();
      mark();
    }

    function paint() {
      const paintNode = nodeColours.painter(tree, state.mode);
      cy.batch(() => {
        for (const element of cy.nodes(":childless")) {
          const node = tree.nodes.get(element.id());
          const { fill, ink, stops } = paintNode(node);
          element.data({ fill, ink, label: labelOf(node, state.mode) });
          if (stops) element.data("stripes", stops);
          else element.removeData("stripes");
        }
      });
      legend.replaceChildren(...legendParts(nodeColours.legend(tree, state.mode)));
    }

    // What was in the middle stays there, when the panel takes its part of the page.
    function onResize() {
      const before = cy.width();
      cy.resize();
      cy.panBy({ x: (cy.width() - before) / 2, y: 0 });
    }

    // Where the whole graph would be too small to read, its beginning.
    function firstView() {
      fit();
      if (cy.zoom() >= READABLE_ZOOM || cy.nodes().empty()) return;
      const first = cy.nodes(":childless").min((element) => element.position("y")).ele;
      cy.zoom(READABLE_ZOOM);
      cy.pan({ x: cy.width() / 2 - first.position("x") * READABLE_ZOOM, y: 40 + (layout.NODE.height - first.position("y")) * READABLE_ZOOM });
    }

    function fit() {
      cy.fit(undefined, 24);
      if (cy.zoom() > 1) {
        cy.zoom(1);
        cy.center();
      }
    }

    function mark() {
      cy.elements().removeClass("current found near");
      for (const index of state.found) cy.getElementById(shownFor(tree.leaves[index]).key).addClass("found");
      if (state.current === null) return;
      const element = cy.getElementById(shownFor(state.current).key);
      element.addClass("current");
      element.connectedEdges().addClass("near");
    }

    function makeCurrent(node) {
      state.current = node;
      mark();
      report.announce(spoken(node));
      onCurrent(node);
    }

    function bringIntoView(node) {
      const element = cy.getElementById(node.key);
      if (element.empty()) return;
      const { x1, y1, x2, y2 } = element.renderedBoundingBox();
      const isReadable = cy.zoom() >= READABLE_ZOOM;
      if (isReadable && x1 > 0 && y1 > 0 && x2 < cy.width() && y2 < cy.height()) return;
      if (!isReadable) cy.zoom(1);
      cy.center(element);
    }

    function goTo(index) {
      const leaf = tree.leaves[index];
      const closed = trees.ancestors(leaf).filter((group) => !group.isOpen);
      if (closed.length > 0) {
        trees.openGroups(closed);
        closed.forEach(layout.forgetLayout);
        draw();
      }
      makeCurrent(leaf);
      bringIntoView(leaf);
    }

    // The group's top stays where it is on the screen.
    function setOpen(group, isOpen) {
      const before = topOf(group);
      group.isOpen = isOpen;
      layout.forgetLayout(group);
      if (state.current !== null && !isOpen) state.current = shownFor(state.current);
      draw();
      const after = topOf(group);
      cy.panBy({ x: before.x - after.x, y: before.y - after.y });
    }

    function topOf(group) {
      const { x1, x2, y1 } = cy.getElementById(group.key).renderedBoundingBox({ includeLabels: false });
      return { x: (x1 + x2) / 2, y: y1 };
    }

    function openGroup(group) {
      setOpen(group, true);
      makeCurrent(shownFor(group.members[0]));
      bringIntoView(state.current);
    }

    function closeGroup(group) {
      if (group === null || group.parent === null) return;
      setOpen(group, false);
      makeCurrent(group);
      bringIntoView(group);
      panel.close();
    }

    // Opens every group that is shown closed.
    function openLevel() {
      const closed = trees.shownNodes(tree.root).filter(isGroup);
      if (closed.length === 0) return report.announce("All groups are open");
      trees.openGroups(closed);
      redrawAfter(closed);
    }

    function closeAll() {
      const groups = trees.groupsIn(tree.root);
      for (const group of groups) group.isOpen = false;
      redrawAfter(groups);
    }

    function redrawAfter(changed) {
      changed.forEach(layout.forgetLayout);
      if (state.current !== null) state.current = shownFor(state.current);
      draw();
      firstView();
    }

    function onTap(node) {
      canvas.focus({ preventScroll: true });
      if (isGroup(node) && !node.isOpen) openGroup(node);
      else show(node, false);
    }

    function show(node, takesFocus) {
      makeCurrent(node);
      if (isGroup(node)) panel.showGroup(model, node, groupActions(node), takesFocus);
      else panel.showOperator(model, node.operator, showFromPanel, takesFocus);
      keepUncovered(node);
    }

    // On a phone the panel covers the lower part of the screen.
    function keepUncovered(node) {
      if (!panel.isBelow()) return;
      canvas.scrollIntoView({ block: "start" });
      const hidden = canvas.getBoundingClientRect().top + cy.getElementById(node.key).renderedBoundingBox().y2 - panel.top();
      if (hidden > 0) cy.panBy({ x: 0, y: -hidden - layout.PADDING });
    }

    function showFromPanel(index) {
      goTo(index);
      show(tree.leaves[index], true);
    }

    function groupActions(group) {
      return [["Close this group", () => { canvas.focus(); closeGroup(group); }]];
    }

    function connected(node, direction) {
      const element = cy.getElementById(node.key);
      const found = direction === "down" ? element.outgoers("node") : element.incomers("node");
      return nearestInX(found, element);
    }

    function nearestInX(elements, element) {
      const distance = (other) => Math.abs(other.position("x") - element.position("x"));
      return elements.empty() ? null : tree.nodes.get(elements.min(distance).ele.id());
    }

    // To the left or right: what has the same input or the same output, in the order of the screen.
    function sibling(node, direction) {
      const element = cy.getElementById(node.key);
      const siblings = element.incomers("node").outgoers("node").union(element.outgoers("node").incomers("node")).difference(element);
      const isBeside = (other) => Math.sign(other.position("x") - element.position("x")) === (direction === "right" ? 1 : -1);
      return nearestInX(siblings.filter(isBeside), element);
    }

    function move(direction) {
      const start = state.current === null || isShownOpen(state.current) ? null : shownFor(state.current);
      const next = start === null ? firstShown() : direction === "left" || direction === "right" ? sibling(start, direction) : connected(start, direction);
      if (next === null) return report.announce(direction === "down" ? "Nothing follows" : direction === "up" ? "Nothing comes before" : "Nothing beside it");
      makeCurrent(next);
      bringIntoView(next);
      if (panel.isOpen()) show(next, false);
    }

    const isShownOpen = (node) => isGroup(node) && node.isOpen;
    const firstShown = () => trees.shownNodes(tree.root)[0] ?? null;

    function enter() {
      const node = state.current === null ? firstShown() : state.current;
      if (node === null) return;
      if (isGroup(node) && !node.isOpen) openGroup(node);
      else show(node, true);
    }

    function closeAround() {
      if (state.current === null) return;
      closeGroup(isShownOpen(state.current) ? state.current : shownFor(state.current).parent);
    }

    function zoomBy(factor) {
      cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
    }

    function onKey(event) {
      const actions = {
        ArrowDown: () => move("down"), ArrowUp: () => move("up"), ArrowLeft: () => move("left"), ArrowRight: () => move("right"),
        Enter: enter, Backspace: closeAround, "+": () => zoomBy(1.25), "-": () => zoomBy(0.8), 0: fit,
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
      event.preventDefault();
      actions[event.key]();
    }

    // Finds operators by kernel or layer; returns how many.
    function find(text) {
      const wanted = text.toLowerCase();
      state.found = wanted === "" ? [] : model.operators.filter(({ kind, layer }) => `${kind}\n${layer}`.toLowerCase().includes(wanted)).map(({ index }) => index);
      state.place = -1;
      mark();
      return state.found.length;
    }

    // Goes to the next or the previous one found; returns which it is.
    function step(by) {
      if (state.found.length === 0) return 0;
      state.place = (state.place + by + state.found.length) % state.found.length;
      goTo(state.found[state.place]);
      return state.place + 1;
    }

    // The same layer in the graph beside this one.
    function markLayer(layer) {
      const operator = model.operators.find((candidate) => candidate.layer === layer);
      if (layer === "" || operator === undefined) return;
      state.current = tree.leaves[operator.index];
      mark();
      bringIntoView(shownFor(state.current));
    }

    function setMode(mode) {
      state.mode = mode;
      paint();
    }

    function recolour() {
      cy.style(style());
      paint();
    }

    function destroy() {
      observer.disconnect();
      cy.destroy();
    }

    return { model, cy, tree, fit, zoomBy, openLevel, closeAll, find, step, goTo, show, markLayer, setMode, recolour, destroy, focus: () => canvas.focus() };
  }

  function legendParts(legend) {
    if (legend === null) return ["No such values in this model."];
    if (legend.kinds) return legend.kinds.map(({ name, label, colour }) => make("span", {}, make("i", { class: `swatch ${name}`, style: `background:${colour}` }), label));
    return [legend.ends[0], make("i", { class: "gradient", style: `background:linear-gradient(to right, ${legend.colours.join(", ")})` }), legend.ends[1]];
  }

  report.createPane = createPane;
})((globalThis.tsqReport ??= {}));
