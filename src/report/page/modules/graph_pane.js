// One graph: the operators of one model, drawn by cytoscape, moved through by mouse, touch or keyboard.
(function (report) {
  "use strict";

  const { make, panel, tree: trees, layout, nodeColours } = report;
  const { isGroup, shownFor } = trees;
  // Below this zoom the labels cannot be read.
  const READABLE_ZOOM = 0.8;
  const MARGIN = 24;

  const KEYS =
    "Arrow keys go along the data flow, Enter opens a group or shows an operator, Backspace closes a group, + and - zoom, " +
    "0 fits the graph.";
  const NOTHING_THERE = { down: "Nothing follows", up: "Nothing comes before", left: "Nothing to the left", right: "Nothing to the right" };

  const isOpenGroup = (node) => isGroup(node) && node.isOpen;

  function legendParts(legend) {
    if (legend === null) return ["No such values in this model."];
    if (legend.kinds) return legend.kinds.map(legendKind);
    const gradient = `background:linear-gradient(to right, ${legend.colours.join(", ")})`;
    return [legend.ends[0], make("i", { class: "gradient", style: gradient }), legend.ends[1]];
  }

  function legendKind({ name, label, colour }) {
    return make("span", {}, make("i", { class: `swatch ${name}`, style: `background:${colour}` }), label);
  }

  class GraphPane {
    // `mode` is what the colours stand for; onCurrent(node) is told where the reader is.
    constructor(host, model, { mode, onCurrent }) {
      this.model = model;
      this.mode = mode;
      this.onCurrent = onCurrent;
      this.tree = trees.moduleTree(model.operators);
      this.current = null;
      this.found = [];
      this.place = -1;
      this.addParts(host);
      this.cy = cytoscape({
        container: this.canvas,
        style: report.graphStyle(),
        autoungrabify: true,
        autounselectify: true,
        boxSelectionEnabled: false,
        minZoom: 0.02,
        maxZoom: 4,
      });
      this.cy.on("tap", "node", ({ target }) => this.onTap(this.tree.nodes.get(target.id())));
      this.observer = new ResizeObserver(() => this.onResize());
      this.observer.observe(this.canvas);
      this.draw();
      this.showBeginning();
    }

    addParts(host) {
      const help = make("p", { id: `keys-${this.model.index}`, class: "only-spoken" }, KEYS);
      this.canvas = make("div", {
        class: "graph",
        tabindex: "0",
        role: "application",
        "aria-roledescription": "graph of operators",
        "aria-label": `Operators of ${this.model.name}`,
        "aria-describedby": help.id,
        onkeydown: (event) => this.onKey(event),
      });
      this.legend = make("div", { class: "legend" });
      host.append(help, this.canvas, this.legend);
    }

    destroy() {
      this.observer.disconnect();
      this.cy.destroy();
    }

    focus() {
      this.canvas.focus({ preventScroll: true });
    }

    // Drawing

    draw() {
      this.cy.batch(() => {
        this.cy.elements().remove();
        this.cy.add(report.graphElements(this.tree, this.model.operators));
      });
      this.paint();
      this.mark();
    }

    paint() {
      const paintNode = nodeColours.painter(this.tree, this.mode);
      this.cy.batch(() => this.cy.nodes(":childless").forEach((element) => this.paintElement(element, paintNode)));
      this.legend.replaceChildren(...legendParts(nodeColours.legend(this.tree, this.mode)));
    }

    paintElement(element, paintNode) {
      const node = this.tree.nodes.get(element.id());
      const { fill, ink, stripes } = paintNode(node);
      element.data({ fill, ink, label: report.labelOf(node, this.mode) });
      if (stripes) element.data("stripes", stripes);
      else element.removeData("stripes");
    }

    setMode(mode) {
      this.mode = mode;
      this.paint();
    }

    recolour() {
      this.cy.style(report.graphStyle());
      this.paint();
    }

    // Marks what was found, and where the reader is.
    mark() {
      this.cy.elements().removeClass("current found near");
      for (const index of this.found) this.elementOf(shownFor(this.tree.leaves[index])).addClass("found");
      if (this.current === null) return;
      const element = this.elementOf(shownFor(this.current));
      element.addClass("current");
      element.connectedEdges().addClass("near");
    }

    elementOf(node) {
      return this.cy.getElementById(node.key);
    }

    // What is in sight

    fit() {
      this.cy.fit(undefined, MARGIN);
      if (this.cy.zoom() <= 1) return;
      this.cy.zoom(1);
      this.cy.center();
    }

    // The whole graph, or where that would be too small to read, its beginning.
    showBeginning() {
      this.fit();
      const nodes = this.cy.nodes(":childless");
      if (this.cy.zoom() >= READABLE_ZOOM || nodes.empty()) return;
      const { x, y } = nodes.min((element) => element.position("y")).ele.position();
      const top = y - 2 * layout.NODE.height;
      this.cy.viewport({ zoom: READABLE_ZOOM, pan: { x: this.cy.width() / 2 - x * READABLE_ZOOM, y: -top * READABLE_ZOOM } });
    }

    zoomBy(factor) {
      this.cy.zoom({ level: this.cy.zoom() * factor, renderedPosition: { x: this.cy.width() / 2, y: this.cy.height() / 2 } });
    }

    // What was in the middle stays there, when the panel takes its part of the page.
    onResize() {
      const before = this.cy.width();
      this.cy.resize();
      this.cy.panBy({ x: (this.cy.width() - before) / 2, y: 0 });
    }

    bringIntoView(node) {
      const element = this.elementOf(node);
      if (element.empty()) return;
      const { x1, y1, x2, y2 } = element.renderedBoundingBox();
      const isReadable = this.cy.zoom() >= READABLE_ZOOM;
      if (isReadable && x1 > 0 && y1 > 0 && x2 < this.cy.width() && y2 < this.cy.height()) return;
      if (!isReadable) this.cy.zoom(1);
      this.cy.center(element);
    }

    // On a phone the panel covers the lower part of the screen.
    keepUncovered(node) {
      if (!panel.isBelow()) return;
      this.canvas.scrollIntoView({ block: "start" });
      const bottom = this.canvas.getBoundingClientRect().top + this.elementOf(node).renderedBoundingBox().y2;
      if (bottom > panel.top()) this.cy.panBy({ x: 0, y: panel.top() - bottom - MARGIN });
    }

    // Where the reader is

    makeCurrent(node) {
      this.current = node;
      this.mark();
      report.announce(report.spokenText(node));
      this.onCurrent(node);
    }

    show(node, takesFocus) {
      this.makeCurrent(node);
      if (isGroup(node)) panel.showGroup(this.model, node, [["Close this group", () => this.closeFromPanel(node)]], takesFocus);
      else panel.showOperator(this.model, node.operator, (index) => this.showFromPanel(index), takesFocus);
      this.keepUncovered(node);
    }

    showFromPanel(index) {
      this.goTo(index);
      this.show(this.tree.leaves[index], true);
    }

    closeFromPanel(group) {
      this.focus();
      this.closeGroup(group);
    }

    // Goes to an operator, and opens the groups around it.
    goTo(index) {
      const leaf = this.tree.leaves[index];
      const closed = trees.ancestors(leaf).filter((group) => !group.isOpen);
      if (closed.length > 0) {
        trees.openGroups(closed);
        closed.forEach(layout.forgetLayout);
        this.draw();
      }
      this.makeCurrent(leaf);
      this.bringIntoView(leaf);
    }

    operatorOf(layer) {
      return layer === "" ? undefined : this.model.operators.find((operator) => operator.layer === layer);
    }

    goToLayer(layer) {
      const operator = this.operatorOf(layer);
      if (operator !== undefined) this.goTo(operator.index);
    }

    // Marks the operator of a layer, for the graph beside the one in which the reader is.
    markLayer(layer) {
      const operator = this.operatorOf(layer);
      if (operator === undefined) return;
      this.current = this.tree.leaves[operator.index];
      this.mark();
      this.bringIntoView(shownFor(this.current));
    }

    // Groups

    // The group's top stays where it is on the screen.
    setOpen(group, isOpen) {
      const before = this.topOf(group);
      group.isOpen = isOpen;
      layout.forgetLayout(group);
      this.draw();
      const after = this.topOf(group);
      this.cy.panBy({ x: before.x - after.x, y: before.y - after.y });
    }

    topOf(group) {
      const { x1, x2, y1 } = this.elementOf(group).renderedBoundingBox({ includeLabels: false });
      return { x: (x1 + x2) / 2, y: y1 };
    }

    openGroup(group) {
      this.setOpen(group, true);
      this.makeCurrent(shownFor(group.members[0]));
      this.bringIntoView(this.current);
    }

    closeGroup(group) {
      if (group.parent === null) return;
      this.setOpen(group, false);
      this.makeCurrent(group);
      this.bringIntoView(group);
      panel.close();
    }

    closeAround() {
      if (this.current === null) return;
      this.closeGroup(isOpenGroup(this.current) ? this.current : shownFor(this.current).parent);
    }

    // Opens every group that is shown closed.
    openLevel() {
      const closed = trees.shownNodes(this.tree.root).filter(isGroup);
      if (closed.length === 0) return report.announce("All groups are open");
      trees.openGroups(closed);
      this.redrawAfter(closed);
    }

    closeAll() {
      const groups = trees.groupsIn(this.tree.root);
      for (const group of groups) group.isOpen = false;
      this.redrawAfter(groups);
    }

    redrawAfter(changed) {
      changed.forEach(layout.forgetLayout);
      if (this.current !== null) this.current = shownFor(this.current);
      this.draw();
      this.showBeginning();
    }

    // Mouse, touch and keys

    onTap(node) {
      this.focus();
      if (isGroup(node) && !node.isOpen) this.openGroup(node);
      else this.show(node, false);
    }

    onKey(event) {
      const actions = {
        ArrowDown: () => this.move("down"),
        ArrowUp: () => this.move("up"),
        ArrowLeft: () => this.move("left"),
        ArrowRight: () => this.move("right"),
        Enter: () => this.enter(),
        Backspace: () => this.closeAround(),
        "+": () => this.zoomBy(1.25),
        "-": () => this.zoomBy(0.8),
        0: () => this.fit(),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
      event.preventDefault();
      actions[event.key]();
    }

    move(direction) {
      const isNowhere = this.current === null || isOpenGroup(this.current);
      const next = isNowhere ? this.firstShown() : this.neighbour(shownFor(this.current), direction);
      if (next === null) return report.announce(NOTHING_THERE[direction]);
      this.makeCurrent(next);
      this.bringIntoView(next);
      if (panel.isOpen()) this.show(next, false);
    }

    enter() {
      const node = this.current ?? this.firstShown();
      if (node === null) return;
      if (isGroup(node) && !node.isOpen) this.openGroup(node);
      else this.show(node, true);
    }

    firstShown() {
      return trees.shownNodes(this.tree.root)[0] ?? null;
    }

    neighbour(node, direction) {
      const element = this.elementOf(node);
      if (direction === "down") return this.nearest(element.outgoers("node"), element);
      if (direction === "up") return this.nearest(element.incomers("node"), element);
      return this.nearest(this.siblings(element, direction === "right" ? 1 : -1), element);
    }

    // What has the same input or the same output, to the right (side 1) or to the left (side -1).
    siblings(element, side) {
      const ofInputs = element.incomers("node").outgoers("node");
      const ofOutputs = element.outgoers("node").incomers("node");
      const isBeside = (other) => Math.sign(other.position("x") - element.position("x")) === side;
      return ofInputs.union(ofOutputs).filter(isBeside);
    }

    nearest(elements, element) {
      const distance = (other) => Math.abs(other.position("x") - element.position("x"));
      return elements.empty() ? null : this.tree.nodes.get(elements.min(distance).ele.id());
    }

    // Search

    // Finds operators by kernel or layer; returns how many.
    find(text) {
      const wanted = text.toLowerCase();
      const matches = ({ kind, layer }) => `${kind}\n${layer}`.toLowerCase().includes(wanted);
      this.found = wanted === "" ? [] : this.model.operators.filter(matches).map(({ index }) => index);
      this.place = -1;
      this.mark();
      return this.found.length;
    }

    // Goes to the next one found (by 1) or the one before (by -1); returns which it is, or 0 if there is none.
    step(by) {
      const count = this.found.length;
      if (count === 0) return 0;
      this.place = this.place < 0 && by < 0 ? count - 1 : (this.place + by + count) % count;
      this.goTo(this.found[this.place]);
      return this.place + 1;
    }
  }

  report.GraphPane = GraphPane;
})((globalThis.tsqReport ??= {}));
