// Where the nodes of a graph are placed: dagre lays out each open group by itself, from the innermost to the root. A change of one
// group therefore costs the layout of that group and of those around it, however large the graph is.
(function (report) {
  "use strict";

  const NODE = { width: 200, height: 56 };
  const PADDING = 14;
  const HEADER = 24;
  const ABOVE = "above";
  const BELOW = "below";

  const { isGroup, shownFor, pathBetween } = report.tree;
  const isOpenGroup = (node) => isGroup(node) && node.isOpen;

  function sizeOf(node) {
    if (!isOpenGroup(node)) return NODE;
    return { width: innerWidth(node), height: layoutOf(node).height + 2 * PADDING + HEADER };
  }

  function computeLayout(group) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "TB", nodesep: 24, ranksep: 30, marginx: 0, marginy: 0 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const member of group.members) graph.setNode(member.key, { ...sizeOf(member) });
    for (const { from, to } of group.links.values()) graph.setEdge(from.key, to.key);
    addOutside(graph, group);
    dagre.layout(graph);
    return read(graph, group);
  }

  // A point above the group and one below it stand for what is outside, so that an edge that comes in or goes out gets a lane beside the
  // nodes that it passes. Where none passes a node, there is no need of them.
  function addOutside(graph, group) {
    const ends = [...group.links.values()];
    const isPassed = { [ABOVE]: new Set(ends.map(({ to }) => to)), [BELOW]: new Set(ends.map(({ from }) => from)) };
    for (const [key, members] of [[ABOVE, group.entries], [BELOW, group.exits]]) {
      if (members.size < 2 || ![...members].some((member) => isPassed[key].has(member))) continue;
      graph.setNode(key, { width: 1, height: 1 });
      for (const member of members) key === ABOVE ? graph.setEdge(key, member.key) : graph.setEdge(member.key, key);
    }
  }

  function read(graph, group) {
    const places = new Map(group.members.map((member) => [member.key, graph.node(member.key)]));
    const routes = new Map(graph.edges().map((edge) => [`${edge.v} ${edge.w}`, graph.edge(edge).points]));
    return { width: graph.graph().width, height: graph.graph().height, places, routes };
  }

  function layoutOf(group) {
    group.layout ??= computeLayout(group);
    return group.layout;
  }

  function forgetLayout(group) {
    for (let changed = group; changed !== null; changed = changed.parent) changed.layout = undefined;
  }

  // Centres of all shown nodes, and the origins of open groups.
  function place(group, origin, positions) {
    positions.origins.set(group.key, origin);
    for (const [key, spot] of layoutOf(group).places) {
      const centre = { x: origin.x + spot.x, y: origin.y + spot.y };
      const member = positions.tree.nodes.get(key);
      if (!isOpenGroup(member)) positions.centres.set(key, centre);
      else place(member, innerOrigin(member, centre, spot), positions);
    }
  }

  function innerOrigin(group, centre, spot) {
    return { x: centre.x - layoutOf(group).width / 2, y: centre.y - spot.height / 2 + HEADER + PADDING };
  }

  // The edges between shown nodes, each once, with the bends that lead it around other nodes.
  function shownEdges(tree, operators, positions) {
    const edges = new Map();
    for (const operator of operators) {
      for (const input of operator.inputs) {
        const from = tree.leaves[input];
        const to = tree.leaves[operator.index];
        const [start, end] = [shownFor(from), shownFor(to)];
        const key = `${start.key} ${end.key}`;
        if (start !== end && !edges.has(key)) edges.set(key, { key, from: start, to: end, bends: bends(start, end, positions) });
      }
    }
    return [...edges.values()];
  }

  function bends(from, to, positions) {
    const { out, group, start, end, into } = pathBetween(from, to);
    return [
      ...out.flatMap((node) => bendsIn(node.parent, `${node.key} ${BELOW}`, positions)),
      ...bendsIn(group, `${start.key} ${end.key}`, positions),
      ...into.flatMap((node) => bendsIn(node.parent, `${ABOVE} ${node.key}`, positions)),
    ];
  }

  // Three points are an edge to the next rank, where nothing is in the way.
  function bendsIn(group, key, positions) {
    const route = layoutOf(group).routes.get(key) ?? [];
    const origin = positions.origins.get(group.key);
    return route.length <= 3 ? [] : route.slice(1, -1).map(({ x, y }) => ({ x: x + origin.x, y: y + origin.y }));
  }

  // How wide an open group is drawn.
  const innerWidth = (group) => Math.max(layoutOf(group).width, NODE.width) + 2 * PADDING;

  function graphLayout(tree, operators) {
    const positions = { tree, centres: new Map(), origins: new Map() };
    place(tree.root, { x: 0, y: 0 }, positions);
    return { centres: positions.centres, edges: shownEdges(tree, operators, positions) };
  }

  report.layout = { graphLayout, forgetLayout, innerWidth, NODE, PADDING };
})((globalThis.tsqReport ??= {}));
