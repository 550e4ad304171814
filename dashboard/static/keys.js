// Shortcuts: single keys, and g followed by the letter of a view. They can be turned off in the
// help dialog.

const OFF = "stint-shortcuts-off";

const VIEWS = [
  ["o", "overview"], ["v", "violations"], ["f", "offenders"], ["b", "bans"],
  ["s", "subject"], ["l", "limits"], ["d", "shadow"], ["u", "outbound"], ["a", "audit"],
];

/** listed holds the shortcuts that the help shows. */
export const listed = [
  ["p", "Pause or resume"],
  ["/", "Filter violations, or find a subject"],
  ...VIEWS.map(([key, view]) => [`g ${key}`, `Go to ${view}`]),
  ["n", "Hide or show names"],
  ["t", "Change the theme"],
  ["?", "Show this help"],
  ["← →", "Move along a chart; with Shift, ten points at a time"],
  ["Esc", "Close a dialog or the menu"],
];

/** listen calls the action of each shortcut: pause, filter, names, theme, help, go(view). */
export function listen(actions) {
  const box = document.getElementById("shortcuts");
  box.checked = !localStorage.getItem(OFF);
  box.addEventListener("change", () => (box.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
  let going = 0; // the time at which g was pressed
  document.addEventListener("keydown", (event) => {
    if (!box.checked || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]") || event.target.closest("input, select, textarea")) return;
    const view = Date.now() - going < 1500 && VIEWS.find(([key]) => key === event.key);
    going = event.key === "g" ? Date.now() : 0;
    const action = view ? () => actions.go(view[1]) : { p: actions.pause, "/": actions.filter, n: actions.names, t: actions.theme, "?": actions.help }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
