// Tables that are sorted by a click on a column's name and filtered by text. Long ones are shown piece by piece.
(function (report) {
  "use strict";

  const { make, button, formats } = report;
  const ROWS_AT_ONCE = 200;

  // What no row has sorts last, in both directions.
  function compared(one, other) {
    const [oneEmpty, otherEmpty] = [one, other].map((value) => value === null || value === undefined || value === "");
    if (oneEmpty || otherEmpty) return { emptiness: oneEmpty - otherEmpty, order: 0 };
    const order = typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
    return { emptiness: 0, order };
  }

  function sorted(rows, { column, direction }) {
    if (column === null) return rows;
    return [...rows].sort((one, other) => {
      const { emptiness, order } = compared(column.value(one), column.value(other));
      return emptiness || direction * order;
    });
  }

  function cell(column, row) {
    const value = column.value(row);
    const content = column.content?.(row) ?? (column.format ?? formats.text)(value);
    const marks = [column.isNumber ? "number" : "", column.differs?.(row) ? "differs" : ""].filter(Boolean).join(" ");
    const element = column.isHeader ? make("th", { scope: "row" }, content) : make("td", { class: marks || null }, content);
    if (column.differs?.(row)) element.append(make("span", { class: "only-spoken" }, " (differs)"));
    return element;
  }

  function headerCell(column, order, onSort) {
    const isSorted = order.column === column;
    const direction = isSorted ? (order.direction > 0 ? "ascending" : "descending") : null;
    const sign = isSorted ? (order.direction > 0 ? " ▲" : " ▼") : "";
    const label = make("button", { type: "button", onclick: () => onSort(column) }, column.title, make("span", { "aria-hidden": "true" }, sign));
    return make("th", { scope: "col", "aria-sort": direction, title: column.help, class: column.isNumber ? "number" : null }, label);
  }

  // columns: [{title, value(row), format?(value), content?(row), isNumber?, isHeader?, help?, differs?(row)}, …]
  // choices: [{label, keeps(row)}, …], check boxes that keep some rows only.
  function table({ caption, columns, rows, choices = [] }) {
    const state = { order: { column: null, direction: 1 }, text: "", kept: new Set(), shown: ROWS_AT_ONCE };
    const search = report.searchField(`Filter ${caption.toLowerCase()}`, () => change({ text: search.field.value.toLowerCase() }));
    const boxes = choices.map((choice) => report.checkbox(choice.label, false, (checked) => choose(choice, checked)));
    const found = make("span", { class: "found", role: "status" });
    const head = make("thead");
    const body = make("tbody");
    const more = make("div", { class: "more" });
    const element = make("div", { class: "table-part" }, make("div", { class: "tools" }, search.element, boxes, found),
      make("div", { class: "table-frame", tabindex: "0", role: "region", "aria-label": caption }, make("table", {}, make("caption", {}, caption), head, body)), more);

    function change(changes) {
      Object.assign(state, { shown: ROWS_AT_ONCE }, changes);
      fill();
    }

    function choose(choice, checked) {
      if (checked) state.kept.add(choice);
      else state.kept.delete(choice);
      change({});
    }

    function sortBy(column) {
      const direction = state.order.column === column ? -state.order.direction : 1;
      change({ order: { column, direction } });
      head.querySelector("[aria-sort] button").focus();
    }

    function matches(row) {
      if (![...state.kept].every((choice) => choice.keeps(row))) return false;
      return state.text === "" || columns.some((column) => String(column.value(row) ?? "").toLowerCase().includes(state.text));
    }

    function fill() {
      const chosen = sorted(rows.filter(matches), state.order);
      head.replaceChildren(make("tr", {}, columns.map((column) => headerCell(column, state.order, sortBy))));
      body.replaceChildren(...chosen.slice(0, state.shown).map((row) => make("tr", {}, columns.map((column) => cell(column, row)))));
      found.textContent = chosen.length === rows.length ? formats.plural(rows.length, "row") : `${formats.count(chosen.length)} of ${formats.plural(rows.length, "row")}`;
      const hidden = chosen.length - state.shown;
      more.replaceChildren(...(hidden > 0 ? [button(`Show ${Math.min(hidden, ROWS_AT_ONCE)} more of ${formats.count(hidden)}`, () => change({ shown: state.shown + ROWS_AT_ONCE }))] : []));
    }

    fill();
    return element;
  }

  report.table = table;
})((globalThis.tsqReport ??= {}));
