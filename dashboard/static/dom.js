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

/** fill replaces what is in an element. If the focus was inside, it goes to the new element that is most like the old one. */
export function fill(node, ...children) {
  const focused = document.activeElement;
  const back = node !== focused && node.contains(focused) ? bookmark(focused) : null;
  node.replaceChildren(...children.flat().filter((child) => child != null && child !== false));
  back?.();
}

/**
 * refill is fill for what changes by itself. It does nothing while somebody clicks something inside, or is there with the
 * keyboard: a screen reader would read it again and again. It does fill if what has the focus is no more.
 */
export function refill(node, ...children) {
  const focused = node.querySelector(":focus-visible, select:focus");
  const like = (e) => nameOf(e) === nameOf(focused);
  const stays = focused && children.flat().some((c) => c instanceof Element && [c, ...c.querySelectorAll(FOCUSABLE)].some(like));
  if (!stays && !node.querySelector(":active")) fill(node, ...children);
}

const FOCUSABLE = "a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), summary, [tabindex]";

/**
 * bookmark returns a function that gives the focus back to an element. If the element is gone by then, the focus goes to
 * the one of the same name where it was, else to the one that took its turn there, else to the content of the page.
 */
export function bookmark(element) {
  const name = nameOf(element);
  const around = []; // the elements around it, and how many stops of the Tab key come before it in each
  for (let node = element.parentElement; node && node !== document.body; node = node.parentElement) {
    around.push([node, stops(node).indexOf(element)]);
  }
  return () => {
    if (element.isConnected && element.matches(FOCUSABLE) && visible(element)) return element.focus({ preventScroll: true });
    for (const [node, turn] of around.filter(([node]) => node.isConnected)) {
      const all = stops(node);
      const next = all.find((e) => nameOf(e) === name) ?? all[Math.min(turn, all.length - 1)];
      if (next) return next.focus({ preventScroll: true });
    }
    document.getElementById("main").focus({ preventScroll: true });
  };
}

const visible = (element) => element.checkVisibility();
const stops = (node) => [...node.querySelectorAll(FOCUSABLE)].filter(visible);

/** nameOf tells elements apart: buttons of the same name by the link in their row. */
function nameOf(element) {
  const row = element.closest("tr, li, article");
  return [element.localName, element.id, element.getAttribute("href"), element.ariaLabel || element.textContent,
    row?.querySelector("a[href]")?.getAttribute("href")].join("\n");
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
export const heading = (title, text) => h("div", { class: "heading" }, h("h1", {}, title), text ? h("p", {}, text) : null);
