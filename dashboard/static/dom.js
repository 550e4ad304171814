// Elements from data. Text is always text: nothing here parses markup, so no name of a subject can become any.

/** h makes an element: h("a", {class: "x", href: "#", on: {click}}, "text", child, null). */
export function h(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, call] of Object.entries(value)) node.addEventListener(event, call);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}

/** fill replaces what is in an element. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child != null && child !== false));
}

/**
 * refill is fill that keeps the focus: on the element with the same data-focus, or on the node if that is gone. It waits for
 * the next time while something inside is pressed, or has the focus and no data-focus. It returns whether it did not.
 */
export function refill(node, ...children) {
  const focus = document.activeElement;
  const inside = focus !== node && node.contains(focus);
  if (node.matches(":active") || (inside && !focus.dataset.focus)) return false;
  fill(node, ...children);
  if (inside) (focused(node, focus.dataset.focus) ?? node).focus({ preventScroll: true });
  return true;
}

/** focused finds the element with a data-focus. */
export const focused = (node, key) => node.querySelector(`[data-focus="${CSS.escape(key)}"]`);

/** say changes the text of an element only if it differs, so that screen readers stay quiet. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** columns reads what a table has: "Subject | subject" is the column of that name and class. */
export function columns(...specs) {
  return specs.map((spec) => {
    const [name, kind] = spec.split(" | ");
    return { name, kind };
  });
}

/** table makes a table with a caption for screen readers; row makes its rows. */
export function table(caption, columns) {
  const body = h("tbody");
  const head = columns.map((c) => h("th", { scope: "col", class: c.kind }, c.name));
  return { node: h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, head)), body), body };
}

/** row makes a row of a table whose cells know the names of their columns, for narrow screens. */
export function row(columns, cells, attributes = {}) {
  return h("tr", attributes, cells.map((cell, i) => h("td", { "data-name": columns[i].name, class: columns[i].kind }, cell)));
}

/** empty explains why there is nothing to show. */
export const empty = (text) => h("p", { class: "empty" }, text);

/** heading is the heading of a view, with a sentence about it. */
export const heading = (title, text) => h("div", { class: "heading" }, h("h1", {}, title), text ? h("p", {}, text) : null);
