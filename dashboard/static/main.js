// The page shows a view of the model, schedules repaints, and maintains the connection.
import { API } from "./api.js";
import { alertRows } from "./alerts.js";
import { shown, whileShown } from "./attention.js";
import { askToken, help } from "./dialogs.js";
import { bookmark, fill, h, say } from "./dom.js";
import { listed, listen } from "./keys.js";
import { menu } from "./menu.js";
import { Model } from "./model.js";
import { clock, count } from "./words.js";
import { audit } from "./views/audit.js";
import { bans } from "./views/bans.js";
import { limits } from "./views/limits.js";
import { offenders } from "./views/offenders.js";
import { outbound } from "./views/outbound.js";
import { overview } from "./views/overview.js";
import { shadow } from "./views/shadow.js";
import { subject } from "./views/subject.js";
import { violations } from "./views/violations.js";

const PAINT = 500; // minimum milliseconds between repaints
const SLOW = 10_000; // milliseconds between requests for data that ticks do not contain
const NOTICE = 8000; // milliseconds that a notice stays visible
const find = (id) => document.getElementById(id);

/** App is passed to every view: {api, model, filter, paused, go, paint, refresh, notice}. */
class App {
  api = new API(askToken);
  model = new Model();
  filter = { text: "", tier: "", policy: "", reason: "" };
  paused = false;
  #makers = new Map(Object.entries({ overview, violations, offenders, bans, subject, limits, shadow, outbound, audit }));
  #views = new Map(); // each view is created when it is first shown
  #view = null;
  #asked = false;
  #painted = 0;
  #pausedAt = 0;
  #noticed = 0;
  #again = new AbortController(); // aborts the connection, so that all data is loaded again
  #alerts = find("alerts"); // shown below the verdict if the view has one

  start() {
    window.addEventListener("hashchange", () => this.#route());
    document.addEventListener("visibilitychange", () => this.paint());
    find("pause").addEventListener("click", () => this.pause());
    find("names").addEventListener("click", () => this.names());
    find("theme").addEventListener("click", () => this.theme());
    find("help").addEventListener("click", () => help(listed));
    listen({ pause: () => this.pause(), names: () => this.names(), theme: () => this.theme(), help: () => help(listed), go: (view) => this.go(view), filter: () => this.#focusFilter() });
    menu();
    this.#nameTheme();
    this.#route();
    this.#keep();
    setInterval(() => this.#slowly(), SLOW);
  }

  /** go shows a view. The view's arguments become part of the address. */
  go(view, ...rest) {
    location.hash = `#/${[view, ...rest.map(encodeURIComponent)].join("/")}`;
  }

  /** paint schedules a repaint: at most twice a second, and never in a hidden tab. */
  paint() {
    if (this.#asked || document.hidden) return;
    this.#asked = true;
    const wait = Math.max(0, this.#painted + PAINT - performance.now());
    setTimeout(() => requestAnimationFrame(() => this.#paint()), wait);
  }

  /** refresh loads the data that ticks do not contain. */
  async refresh() {
    this.model.refresh(await this.api.get("api/state"));
    this.paint();
  }

  /**
   * notice shows the result of an action for a while, or until the user closes it if the action
   * failed.
   */
  notice(text, wrong = false) {
    const node = find("notice");
    const back = bookmark(document.activeElement);
    const hide = () => {
      const inside = node.contains(document.activeElement);
      node.hidden = true;
      if (inside) back();
    };
    fill(node, text, wrong ? h("button", { type: "button", on: { click: hide } }, "Close") : null);
    node.classList.toggle("wrong", wrong);
    node.hidden = false;
    clearTimeout(this.#noticed);
    this.#noticed = wrong ? 0 : setTimeout(hide, NOTICE);
  }

  pause() {
    this.paused = !this.paused;
    this.#pausedAt = this.model.newest;
    find("pause").setAttribute("aria-pressed", this.paused);
    this.paint();
  }

  /** names hides names or shows them again. It clears the page at once and reloads the data. */
  names() {
    if (!this.model.state.names) return;
    this.api.shortNames = !this.api.shortNames;
    this.filter.text = "";
    find("notice").hidden = true;
    this.#views.clear();
    this.#view?.hide?.();
    this.#view = null;
    find("banner").after(this.#alerts);
    fill(find("view"));
    this.#again.abort();
  }

  theme() {
    const next = { auto: "light", light: "dark", dark: "auto" }[document.documentElement.dataset.theme] ?? "auto";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("stint-theme", next);
    this.#nameTheme();
  }

  #nameTheme() {
    say(find("theme"), `Theme: ${document.documentElement.dataset.theme}`);
  }

  #route() {
    if (this.#view && !location.hash.startsWith("#/")) return; // the address has an anchor on the page, not a view
    const [, name, ...rest] = location.hash.split("/");
    const view = this.#makers.has(name) ? name : "overview";
    if (name && name !== view) this.notice(`There is no view “${decode(name)}”. Showing the overview.`, true);
    if (!this.#views.has(view)) this.#views.set(view, this.#makers.get(view)(this));
    const next = this.#views.get(view);
    if (this.#view !== next) this.#view?.hide?.();
    const moved = this.#view !== null && this.#view !== next;
    this.#view = next;
    find("banner").after(this.#alerts);
    fill(find("view"), next.node);
    next.node.querySelector(".verdict")?.after(this.#alerts);
    for (const link of document.querySelectorAll("nav [data-view]")) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    next.show?.(...rest.map(decode));
    this.#update();
    if (moved) {
      find("main").focus({ preventScroll: true });
      window.scrollTo(0, 0);
      this.#slowly(); // reload: the data may be seconds old
    }
  }

  #paint() {
    this.#asked = false;
    if (document.hidden) return;
    this.#painted = performance.now();
    const firing = this.model.alerts.filter((a) => a.state === "firing").length;
    document.title = `${firing > 0 ? `(${firing}) ` : ""}stint`;
    alertRows(this.#alerts, this.model.alerts);
    const missed = this.model.newest - this.#pausedAt;
    say(find("pause"), !this.paused ? "Pause" : `Resume${missed > 0 ? ` (${missed} new)` : ""}`);
    if (!this.paused) this.#update();
  }

  /** update repaints the view, even while paused. */
  #update() {
    if (this.model.state.now) this.#view?.update?.();
  }

  #focusFilter() {
    if (this.#view?.focus) {
      this.#view.focus();
      return;
    }
    this.go("violations");
    window.addEventListener("hashchange", () => this.#view.focus?.(), { once: true });
  }

  async #slowly() {
    if (document.hidden || this.paused || !this.#view?.slow || !this.model.state.now) return;
    await this.refresh().catch(() => {}); // the stream reports a lost connection
  }

  /**
   * keep stays connected while the page is visible. It reconnects when the connection is lost,
   * after increasing pauses.
   */
  async #keep() {
    let failures = 0;
    const follow = async (left) => {
      this.#again = new AbortController();
      let loaded = 0; // the newest second in the loaded state
      await this.api.stream(async (signal) => {
        const state = await this.api.get("api/state", signal);
        this.#again.signal.throwIfAborted();
        this.model.load(state);
        loaded = state.points?.at(-1)?.at ?? 0;
        failures = 0;
        this.#connected();
      }, (tick) => {
        const before = loaded - tick.point.at;
        if (before >= 0 && before < 10) return; // already in the state; a larger gap means that the clock was set
        this.model.tick(tick);
        this.paint();
      }, AbortSignal.any([left, this.#again.signal]));
    };
    for (;;) {
      await shown();
      try {
        if (await whileShown(follow)) say(find("link"), "Connecting…"); // the page is hidden
        else await this.#lost("The server closed the connection.", failures++);
      } catch (error) {
        if (this.#again.signal.aborted) continue;
        await this.#lost(error.status ? error.message : "Cannot reach the server.", failures++, error.status === 401);
      }
    }
  }

  #connected() {
    find("banner").hidden = true;
    document.body.classList.remove("lost");
    say(find("link"), `Live · stint ${this.model.state.version}`);
    find("names").hidden = !this.model.state.names;
    say(find("names"), `Names: ${this.api.shortNames ? "hidden" : "shown"}`);
    this.#pausedAt = this.model.newest;
    if (!this.#view) this.#route();
    this.#paint();
  }

  /**
   * lost shows that the connection is lost. It then waits 1 s, 2 s, 4 s and so on, up to 15 s, or
   * until the user clicks the button. If locked is true, because a token is required, it waits only
   * for the click.
   */
  #lost(why, failures, locked = false) {
    const pause = Math.min(15_000, 1000 * 2 ** failures) * (0.8 + 0.4 * Math.random());
    const last = this.model.points.at(-1);
    const button = document.createElement("button");
    button.textContent = locked ? "Sign in" : "Retry now";
    document.body.classList.add("lost");
    say(find("link"), "Not connected");
    fill(find("banner"), `${why} `,
      last ? `Showing data from ${clock(last.at * 1000)}. ` : null,
      locked ? null : `Retrying in ${count(Math.ceil(pause / 1000), "second")}. `, button);
    find("banner").hidden = false;
    return new Promise((resolve) => {
      const timer = locked ? 0 : setTimeout(resolve, pause);
      button.onclick = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** decode decodes a part of the address, or returns it unchanged if it is malformed. */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

new App().start();
