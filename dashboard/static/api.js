// Calls to the server. The token is kept in the tab's session storage; the page asks for it when
// the server requires a token.

const KEY = "stint-token";
const SHORT = "stint-names-short";
const TICK = "event: tick\ndata: "; // the beginning of an event with a tick; its data is one line

/** Refused is thrown if the server answers with an error. The field status is the HTTP status. */
class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class API {
  /**
   * ask(wrong) asks for a token; wrong reports whether the last token was refused. Its promise
   * resolves to a token or null.
   */
  constructor(ask) {
    this.ask = ask;
    this.asked = null;
  }

  /** shortNames reports whether this browser hides names, for screen sharing. */
  get shortNames() {
    return localStorage.getItem(SHORT) !== null;
  }

  set shortNames(short) {
    if (short) localStorage.setItem(SHORT, "1");
    else localStorage.removeItem(SHORT);
  }

  get(path, signal) {
    return this.call("GET", path, undefined, signal).then((answer) => answer.json());
  }

  post(path, body) {
    return this.call("POST", path, body).then((answer) => answer.json());
  }

  /**
   * stream connects, waits for onOpen, and then calls onTick with every tick until the server ends
   * the stream. It misses no tick after it has called onOpen. It throws if nothing arrives for ten
   * seconds, or if the signal is aborted; in both cases, it also aborts the signal that it passed
   * to onOpen. It also throws any error that onOpen or onTick throws. It always closes its
   * connection.
   */
  async stream(onOpen, onTick, signal) {
    const silence = new AbortController();
    let timer = 0;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), 10_000);
    };
    try {
      const either = AbortSignal.any([silence.signal, signal]);
      wait();
      const answer = await this.call("GET", "api/stream", undefined, either);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      wait();
      await onOpen(either);
      let text = "";
      for (;;) {
        wait();
        const { value, done } = await reader.read();
        if (done) return;
        const events = (text + value).split("\n\n");
        text = events.pop();
        for (const event of events) if (event.startsWith(TICK)) onTick(JSON.parse(event.slice(TICK.length)));
      }
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
  }

  async call(method, path, body, signal) {
    const known = sessionStorage.getItem(KEY);
    const headers = known ? { Authorization: `Bearer ${known}` } : {};
    if (body) headers["Content-Type"] = "application/json";
    const names = this.shortNames ? `${path.includes("?") ? "&" : "?"}names=short` : "";
    const answer = await fetch(path + names, { method, headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({}));
    if (answer.status !== 401) throw new Refused(answer.status, problem.message ?? `The server answered ${answer.status}.`);
    await this.token(known);
    return this.call(method, path, body, signal);
  }

  /** token waits for a token other than the refused one. Concurrent calls ask only once. */
  async token(refused) {
    if (sessionStorage.getItem(KEY) !== refused) return;
    this.asked ??= this.ask(Boolean(refused)).finally(() => (this.asked = null));
    const token = await this.asked;
    if (token === null) throw new Refused(401, "A token is required.");
    sessionStorage.setItem(KEY, token);
  }
}
