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

/**
 * fill replaces what is in an element. If the focus is inside, the element that has it stays, in place of the matching
 * element, so that screen readers do not notice. Without one, the focus goes where bookmark says.
 */
export function fill(node, ...children) {
  const list = children.flat().filter((child) => child != null && child !== false);
  const focused = document.activeElement;
  if (node === focused || !node.contains(focused)) {
    node.replaceChildren(...list);
    return;
  }
  const stays = list.find((child) => child instanceof Element && child.contains(focused));
  if (stays) {
    around(node, stays, list);
    return;
  }
  const back = bookmark(focused);
  const fresh = h(node.localName, {}, list);
  const like = stops(fresh).find((e) => nameOf(e) === nameOf(focused));
  if (!like || !graft(node, fresh, focused, like)) node.replaceChildren(...fresh.childNodes);
  if (document.activeElement !== focused) back();
}

/** refill is fill for what changes by itself: not while somebody presses something inside, or has a list open. It returns whether it did. */
export function refill(node, ...children) {
  if (node.querySelector(":active, select:focus")) return false;
  fill(node, ...children);
  return true;
}

/** around replaces what is in an element by a list that has one of its children, without moving that. */
function around(node, child, list) {
  for (const other of [...node.childNodes]) if (other !== child) other.remove();
  child.before(...list.slice(0, list.indexOf(child)));
  child.after(...list.slice(list.indexOf(child) + 1));
}

/** graft makes the content of an old element that of a fresh one, but keeps an element in it, in place of the matching one. It returns false if it cannot. */
function graft(old, fresh, kept, like) {
  const path = (from, to) => (from === to ? [] : [...path(from, to.parentNode), to]);
  const [stay, go] = [path(old, kept), path(fresh, like)];
  if (stay.length !== go.length || stay.some((e, i) => e.localName !== go[i].localName)) return false;
  stay.forEach((e, i) => {
    const list = [...go[i].parentNode.childNodes].map((n) => (n === go[i] ? e : n));
    around(e.parentNode, e, list);
    for (const { name } of [...e.attributes]) if (!go[i].hasAttribute(name)) e.removeAttribute(name);
    for (const { name, value } of go[i].attributes) e.setAttribute(name, value);
  });
  kept.replaceChildren(...like.childNodes);
  return true;
}

const FOCUSABLE = "a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), summary, [tabindex]";
const stops = (node) => [...node.querySelectorAll(FOCUSABLE)];

/**
 * bookmark returns a function that gives the focus back to an element. If the element is gone by then, the focus goes to
 * the matching element, else to the element now in its position, else to the content of the page.
 */
export function bookmark(element) {
  const name = nameOf(element);
  const parents = []; // and how many stops of the Tab key come before it in each
  for (let node = element.parentElement; node && node !== document.body; node = node.parentElement) {
    parents.push([node, stops(node).indexOf(element)]);
  }
  return () => {
    const usable = (e) => e.isConnected && e.matches(FOCUSABLE) && e.checkVisibility();
    if (usable(element)) return element.focus({ preventScroll: true });
    for (const [node, turn] of parents.filter(([node]) => node.isConnected)) {
      const all = stops(node).filter(usable);
      const next = all.find((e) => nameOf(e) === name) ?? all[Math.min(turn, all.length - 1)];
      if (next) return next.focus({ preventScroll: true });
    }
    document.getElementById("main").focus({ preventScroll: true });
  };
}

/** nameOf tells elements apart: buttons of the same name by the link in their row. */
function nameOf(element) {
  const link = element.closest("tr, li, article")?.querySelector("a[href]");
  return [element.localName, element.id, element.getAttribute("href") ?? (element.ariaLabel || element.textContent),
    link?.getAttribute("href")].join("\n");
}

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
export const heading = (title, ...text) => h("div", { class: "heading" }, h("h1", {}, title), text.length > 0 ? h("p", {}, text) : null);
