// Operators grouped by the path of their module: a tree of groups, which the graph shows opened or closed.
//
// A node of the tree is a group {key, label, members, parent, …} or a leaf {key, operator, parent}. Sums of a group are in `sums`.
(function (report) {
  "use strict";

  // More members than this on one level cannot be looked over: they become groups of successive ones.
  const MEMBERS_AT_MOST = 80;
  // A graph with no more nodes than this is shown with all groups open.
  const FIRST_VIEW_NODES = 200;

  const isGroup = (node) => node.members !== undefined;
  const newGroup = (label, path) => ({ label, path, members: [], children: new Map(), parent: null, isOpen: false });

  function childGroup(group, part) {
    if (!group.children.has(part)) {
      const child = newGroup(part, group.path === "" ? part : `${group.path}.${part}`);
      group.children.set(part, child);
      group.members.push(child);
    }
    return group.children.get(part);
  }

  const partsOf = (layer) => layer.split(".").filter((text) => text !== "");

  function commonParts(one, other) {
    const end = one.findIndex((part, index) => part !== other[index]);
    return end < 0 ? one : one.slice(0, end);
  }

  // The path of each operator. One without a layer, such as a concatenation in the code of a module, belongs to the innermost module
  // that has both what runs before it and what runs after it: if it stood outside, the groups around it would lie beside one another.
  function pathsOf(operators) {
    const own = operators.map(({ layer }) => partsOf(layer));
    const before = [...own];
    const after = [...own];
    for (const { index, inputs } of operators) {
      if (own[index].length === 0) before[index] = before[Math.max(...inputs.filter((input) => input < index))] ?? [];
    }
    for (const { index, outputs } of [...operators].reverse()) {
      if (own[index].length === 0) after[index] = after[Math.min(...outputs.filter((output) => output > index))] ?? [];
    }
    return own.map((path, index) => (path.length > 0 ? path : commonParts(before[index], after[index])));
  }

  function insert(root, operator, path) {
    let group = root;
    for (const part of path) group = childGroup(group, part);
    group.members.push({ operator });
  }

  // A group of one member says nothing: its member takes its place, and keeps its name if it is a group.
  function withoutLonelyGroups(group) {
    group.members = group.members.map((member) => {
      if (!isGroup(member)) return member;
      withoutLonelyGroups(member);
      if (member.members.length !== 1) return member;
      const only = member.members[0];
      if (isGroup(only)) only.label = `${member.label}.${only.label}`;
      return only;
    });
  }

  const positionOf = (node) => (isGroup(node) ? node.first : node.operator.index);

  function orderByRun(group) {
    group.members.filter(isGroup).forEach(orderByRun);
    group.members.sort((one, other) => positionOf(one) - positionOf(other));
    group.first = group.members.length > 0 ? positionOf(group.members[0]) : 0;
  }

  // As even as they can be: 81 members become groups of 41 and 40, not of 80 and 1.
  function inRuns(members, path) {
    const runs = Math.ceil(members.length / MEMBERS_AT_MOST);
    const bounds = Array.from({ length: runs + 1 }, (_, run) => Math.round((run * members.length) / runs));
    return bounds.slice(1).map((end, run) => {
      const group = newGroup(`part ${run + 1} of ${runs}`, path);
      group.members = members.slice(bounds[run], end);
      group.first = positionOf(group.members[0]);
      return group;
    });
  }

  function splitLargeGroups(group) {
    while (group.members.length > MEMBERS_AT_MOST) group.members = inRuns(group.members, group.path);
    group.members.filter(isGroup).forEach(splitLargeGroups);
  }

  const least = (one, other) => (one === null || (other !== null && other < one) ? other : one);
  const numberOrNull = (value) => (report.formats.isNumber(value) || value === Infinity ? value : null);

  function sumsOfOperator(operator) {
    return {
      count: 1,
      seconds: numberOrNull(operator.seconds),
      sqnr: numberOrNull(operator.sqnr_db),
      alone: numberOrNull(operator.alone_sqnr_db),
      numbers: { [operator.numbers]: 1 },
    };
  }

  function added(one, other) {
    const numbers = { ...one.numbers };
    for (const [kind, count] of Object.entries(other.numbers)) numbers[kind] = (numbers[kind] ?? 0) + count;
    return {
      count: one.count + other.count,
      seconds: one.seconds === null && other.seconds === null ? null : (one.seconds ?? 0) + (other.seconds ?? 0),
      sqnr: least(one.sqnr, other.sqnr),
      alone: least(one.alone, other.alone),
      numbers,
    };
  }

  const NOTHING = { count: 0, seconds: null, sqnr: null, alone: null, numbers: {} };

  // Keys, parents and sums, from the leaves to the root.
  function finish(tree, node, parent) {
    node.parent = parent;
    node.key = `${isGroup(node) ? "group" : "operator"}-${tree.nodes.size}`;
    tree.nodes.set(node.key, node);
    if (isGroup(node)) {
      node.children = null;
      node.members.forEach((member) => finish(tree, member, node));
      node.sums = node.members.reduce((sums, member) => added(sums, member.sums), NOTHING);
    } else {
      node.sums = sumsOfOperator(node.operator);
      tree.leaves[node.operator.index] = node;
    }
  }

  function ancestors(node) {
    const found = [];
    for (let group = node.parent; group !== null; group = group.parent) found.push(group);
    return found;
  }

  // The edges of the data flow as seen on each level: group.links has those between members of the group, group.entries the members
  // that get values from outside it, group.exits those whose values leave it.
  function linkMembers(tree, operators) {
    const groups = [...tree.nodes.values()].filter(isGroup);
    for (const group of groups) Object.assign(group, { links: new Map(), entries: new Set(), exits: new Set() });
    for (const operator of operators) {
      for (const input of new Set(operator.inputs)) addLink(tree.leaves[input], tree.leaves[operator.index]);
    }
  }

  // How to get from one node to another: out of the groups around the first, between two members of one group, and into the others.
  function pathBetween(from, to) {
    const lineage = (node) => [node, ...ancestors(node)];
    const [out, into] = [lineage(from), lineage(to)];
    while (out.at(-2) === into.at(-2)) {
      out.pop();
      into.pop();
    }
    const group = out.pop();
    into.pop();
    return { out: out.slice(0, -1), group, start: out.at(-1), end: into.at(-1), into: into.slice(0, -1).reverse() };
  }

  function addLink(from, to) {
    if (from === to) return;
    const { out, group, start, end, into } = pathBetween(from, to);
    out.forEach((node) => node.parent.exits.add(node));
    into.forEach((node) => node.parent.entries.add(node));
    group.links.set(`${start.key} ${end.key}`, { from: start, to: end });
  }

  function openGroups(groups) {
    for (const group of groups) group.isOpen = true;
  }

  // Opens whole levels, as long as the nodes to be seen do not become too many.
  function openFirstView(tree) {
    let shown = tree.root.members;
    tree.root.isOpen = true;
    while (shown.some(isGroup)) {
      const next = shown.flatMap((node) => (isGroup(node) ? node.members : [node]));
      if (next.length > FIRST_VIEW_NODES) return;
      openGroups(shown.filter(isGroup));
      shown = next;
    }
  }

  function moduleTree(operators) {
    const root = newGroup("", "");
    const paths = pathsOf(operators);
    operators.forEach((operator, index) => insert(root, operator, paths[index]));
    withoutLonelyGroups(root);
    orderByRun(root);
    splitLargeGroups(root);
    const tree = { root, nodes: new Map(), leaves: [] };
    finish(tree, root, null);
    linkMembers(tree, operators);
    openFirstView(tree);
    return tree;
  }

  // The node that stands for this one in the graph: itself, or the outermost closed group around it.
  function shownFor(node) {
    const closed = ancestors(node).filter((group) => !group.isOpen);
    return closed.length > 0 ? closed.at(-1) : node;
  }

  function shownNodes(group) {
    return group.members.flatMap((member) => (isGroup(member) && member.isOpen ? shownNodes(member) : [member]));
  }

  function groupsIn(group) {
    return group.members.filter(isGroup).flatMap((member) => [member, ...groupsIn(member)]);
  }

  report.tree = { moduleTree, isGroup, ancestors, pathBetween, shownFor, shownNodes, groupsIn, openGroups };
})((globalThis.tsqReport ??= {}));
