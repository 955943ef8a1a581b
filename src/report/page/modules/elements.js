// Making elements of the page. Texts come from users' files, so they only ever become text nodes and attributes.
(function (report) {
  "use strict";

  function setAttribute(element, name, value) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }

  // make("td", {class: "number"}, "12"): children that are null are left out.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }

  // A long name may be broken after its separators.
  function breakable(text) {
    return text.split(/(?<=::|[./])/).flatMap((piece, index) => (index === 0 ? [piece] : [make("wbr"), piece]));
  }

  function button(label, onclick, attributes = {}) {
    return make("button", { type: "button", onclick, ...attributes }, label);
  }

  function labelled(label, control) {
    return make("label", {}, make("span", {}, label), control);
  }

  // options: [[value, label], …]
  function select(options, chosen, onchange) {
    const entries = options.map(([value, label]) => make("option", { value, selected: value === chosen }, label));
    return make("select", { onchange: (event) => onchange(event.target.value) }, entries);
  }

  function checkbox(label, checked, onchange) {
    const box = make("input", { type: "checkbox", checked, onchange: (event) => onchange(event.target.checked) });
    return make("label", { class: "choice" }, box, make("span", {}, label));
  }

  function searchField(label, oninput, attributes = {}) {
    const field = make("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput, ...attributes });
    return { field, element: labelled(label, field) };
  }

  // For screen readers: what has changed where the eye sees it.
  function announce(text) {
    document.getElementById("announcements").textContent = text;
  }

  Object.assign(report, { make, breakable, button, labelled, select, checkbox, searchField, announce });
})((globalThis.tsqReport ??= {}));
