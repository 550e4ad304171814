// Functions that create elements from data. Nothing here parses markup, so the name of a subject
// cannot become markup.

/** h creates an element: h("a", {class: "x", href: "#", on: {click}}, "text", child, null). */
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
 * fill replaces the content of an element. If the focus is inside, fill keeps the focused element
 * in place of the new element that matches it, so that screen readers do not announce it again. If
 * no new element matches, it uses bookmark to move the focus.
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

/**
 * refill is like fill, for content that changes without user action. It does nothing while a
 * control inside is pressed or a list inside is open. It returns whether it replaced the content.
 */
export function refill(node, ...children) {
  if (node.querySelector(":active, select:focus")) return false;
  fill(node, ...children);
  return true;
}

/**
 * around replaces the content of an element with a list that contains one of its children, without
 * moving that child.
 */
function around(node, child, list) {
  for (const other of [...node.childNodes]) if (other !== child) other.remove();
  child.before(...list.slice(0, list.indexOf(child)));
  child.after(...list.slice(list.indexOf(child) + 1));
}

/**
 * graft replaces the content of the element old with the content of fresh. The element kept, a
 * descendant of old, stays in the document in place of like, a descendant of fresh. It returns
 * false if that is not possible.
 */
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
 * bookmark returns a function that moves the focus back to an element. If the element no longer
 * exists by then, the function moves the focus to the matching element, else to the element that is
 * now in its position, else to the content of the page.
 */
export function bookmark(element) {
  const name = nameOf(element);
  const parents = []; // each ancestor, with the number of its tab stops before the element
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

/**
 * nameOf returns a string that identifies an element. The link in a row distinguishes buttons with
 * the same name.
 */
function nameOf(element) {
  const link = element.closest("tr, li, article")?.querySelector("a[href]");
  return [element.localName, element.id, element.getAttribute("href") ?? (element.ariaLabel || element.textContent),
    link?.getAttribute("href")].join("\n");
}

/**
 * say changes the text of an element only if it differs, so that screen readers do not repeat the
 * same text.
 */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** columns parses column definitions: "Subject | subject" is a column with that name and class. */
export function columns(...specs) {
  return specs.map((spec) => {
    const [name, kind] = spec.split(" | ");
    return { name, kind };
  });
}

/** table creates a table with a caption for screen readers; row creates its rows. */
export function table(caption, columns) {
  const body = h("tbody");
  const head = columns.map((c) => h("th", { scope: "col", class: c.kind }, c.name));
  return { node: h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, head)), body), body };
}

/**
 * row creates a row of a table. Each cell has the name of its column as an attribute, for narrow
 * screens.
 */
export function row(columns, cells, attributes = {}) {
  return h("tr", attributes, cells.map((cell, i) => h("td", { "data-name": columns[i].name, class: columns[i].kind }, cell)));
}

export function listing(caption, columns, rows) {
  const { node, body } = table(caption, columns);
  fill(body, rows.map((cells) => row(columns, cells)));
  return node;
}

export const empty = (text) => h("p", { class: "empty" }, text);

export const heading = (title, ...text) => h("div", { class: "heading" }, h("h1", {}, title), text.length > 0 ? h("p", {}, text) : null);
