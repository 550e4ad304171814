// The menu on narrow screens: it shows and hides the navigation and the other controls.

/** menu lets the button open and close the menu. Escape and navigation close it too. */
export function menu() {
  const button = document.getElementById("menu");
  const open = (yes) => button.setAttribute("aria-expanded", yes);
  const isOpen = () => button.getAttribute("aria-expanded") === "true";
  button.addEventListener("click", () => open(!isOpen()));
  window.addEventListener("hashchange", () => open(false));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isOpen() || document.querySelector("dialog[open]")) return;
    open(false);
    button.focus();
  });
}
