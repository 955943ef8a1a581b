// Tables that are sorted by a click on a column's name and filtered by text. Long ones are shown piece by piece.
(function (report) {
  "use strict";

  const { make, button, formats } = report;
  const ROWS_AT_ONCE = 200;

  const isEmpty = (value) => value === null || value === undefined || value === "";
  const areNumbers = (...values) => values.every((value) => typeof value === "number");

  // A positive number if `one` comes after `other`. What a row does not have comes last in both directions.
  function compared(one, other, direction) {
    if (isEmpty(one) || isEmpty(other)) return isEmpty(one) - isEmpty(other);
    if (one === other) return 0;  // Infinity less itself is no number
    const order = areNumbers(one, other) ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
    return direction * order;
  }

  function sorted(rows, { column, direction }) {
    if (column === null) return rows;
    return [...rows].sort((one, other) => compared(column.value(one), column.value(other), direction));
  }

  function cell(column, row) {
    const content = column.content?.(row) ?? report.breakable(formats.text(column.value(row)));
    if (column.isHeader) return make("th", { scope: "row" }, content);
    const differs = column.differs?.(row) ?? false;
    const classes = [column.isNumber ? "number" : "", differs ? "differs" : ""].filter(Boolean).join(" ");
    return make("td", { class: classes || null }, content, differs ? make("span", { class: "only-spoken" }, " (differs)") : null);
  }

  function headerCell(column, order, onclick) {
    const direction = order.column !== column ? null : order.direction > 0 ? "ascending" : "descending";
    const sign = { ascending: " ▲", descending: " ▼" }[direction] ?? "";
    const label = make("button", { type: "button", onclick }, column.title, make("span", { "aria-hidden": "true" }, sign));
    return make("th", { scope: "col", "aria-sort": direction, title: column.help, class: column.isNumber ? "number" : null }, label);
  }

  // A table that scrolls by itself where it is wider than the page.
  function tableFrame(caption, head, body) {
    const table = make("table", {}, make("caption", {}, caption), head, body);
    return make("div", { class: "table-frame", tabindex: "0", role: "region", "aria-label": caption }, table);
  }

  class Table {
    constructor({ caption, columns, rows, choices }) {
      Object.assign(this, { columns, rows, shown: ROWS_AT_ONCE, text: "", kept: new Set() });
      this.order = { column: null, direction: 1 };
      this.head = make("thead");
      this.body = make("tbody");
      this.count = make("span", { class: "found", role: "status" });
      this.more = make("div", { class: "more" });
      const tools = make("div", { class: "tools" }, this.filterField(caption), this.checkboxes(choices), this.count);
      this.element = make("div", {}, tools, tableFrame(caption, this.head, this.body), this.more);
      this.fill();
    }

    filterField(caption) {
      const search = report.searchField(`Filter ${caption.toLowerCase()}`, () => {
        this.text = search.field.value.toLowerCase();
        this.refill();
      });
      return search.element;
    }

    checkboxes(choices) {
      return choices.map((choice) => report.checkbox(choice.label, false, (checked) => {
        if (checked) this.kept.add(choice);
        else this.kept.delete(choice);
        this.refill();
      }));
    }

    sortBy(column) {
      this.order = { column, direction: this.order.column === column ? -this.order.direction : 1 };
      this.refill();
      this.head.querySelector("[aria-sort] button").focus();
    }

    matches(row) {
      if (![...this.kept].every((choice) => choice.keeps(row))) return false;
      return this.text === "" || this.columns.some((column) => String(column.value(row) ?? "").toLowerCase().includes(this.text));
    }

    // From the beginning of the rows.
    refill() {
      this.shown = ROWS_AT_ONCE;
      this.fill();
    }

    fill() {
      const { columns, order, rows } = this;
      const chosen = sorted(rows.filter((row) => this.matches(row)), order);
      const rowElement = (row) => make("tr", {}, columns.map((column) => cell(column, row)));
      const headers = columns.map((column) => headerCell(column, order, () => this.sortBy(column)));
      this.head.replaceChildren(make("tr", {}, headers));
      this.body.replaceChildren(...chosen.slice(0, this.shown).map(rowElement));
      const kept = chosen.length < rows.length ? `${formats.count(chosen.length)} of ` : "";
      this.count.textContent = kept + formats.plural(rows.length, "row");
      this.offerMore(chosen.length - this.shown);
    }

    offerMore(hidden) {
      const label = `Show ${Math.min(hidden, ROWS_AT_ONCE)} more of ${formats.count(hidden)}`;
      this.more.replaceChildren(...(hidden > 0 ? [button(label, () => this.showMore())] : []));
    }

    showMore() {
      this.shown += ROWS_AT_ONCE;
      this.fill();
    }
  }

  // columns: [{title, value(row), content?(row), isNumber?, isHeader?, help?, differs?(row)}, …]
  // choices: [{label, keeps(row)}, …], check boxes that keep some rows only.
  function table({ caption, columns, rows, choices = [] }) {
    return new Table({ caption, columns, rows, choices }).element;
  }

  Object.assign(report, { table, tableFrame });
})((globalThis.tsqReport ??= {}));
