/**
 * A client of stint for Node, Deno, Bun, workers and edge functions. It needs only fetch,
 * AbortController and crypto.
 *
 *     const stint = new Stint({ url: "http://localhost:8080", token: process.env.STINT_TOKEN });
 *     const decision = await stint.take({ subject: "user:42", policy: "search" });
 *     if (!decision.allowed) return new Response(null, { status: 429, headers: decision.headers });
 */
import type { Changed, Charge, Costs, Decision, ExtendRequest, Pause, Problem, Request, SettleRequest, WaitRequest } from "./types.js";

export type * from "./types.js";

/** What to do with a request if no server decides it in time. */
export type FailureMode = "allow" | "deny" | "throw";

export interface Options {
  /**
   * The URL of the server, such as "http://localhost:8080", or the URLs of several servers that
   * share a store. If a server fails, the client asks the next one.
   */
  url: string | string[];
  /**
   * A token from the server's `--api-token-file`. It is a secret, so the constructor throws an
   * error if it runs in a browser.
   */
  token?: string;
  /** The time limit for a decision in milliseconds, including retries. The default is 250. */
  timeout?: number;
  /**
   * What to do with a request that no server has decided. The default is "deny" for wait, and
   * "allow" for other calls. An invalid request always throws.
   */
  onFailure?: FailureMode;
  /**
   * The maximum number of denials to remember. Until the wait of a remembered denial is over, the
   * client denies equal requests without a call. The default is 1000; 0 remembers none.
   */
  denyCache?: number;
  /** The function that makes the calls. The default is the global fetch. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

export interface CallOptions {
  /** Aborts the call, which then throws the signal's reason. */
  signal?: AbortSignal;
  /**
   * The time limit for this call in milliseconds. The default is the client's timeout for take,
   * peek and hold, none for wait, and 2000 for other calls.
   */
  timeout?: number;
}

/** A decision of the server, or of the failure mode. */
export interface Answer extends Decision {
  /**
   * The server's header fields about limits, such as RateLimit and Retry-After, to pass on to
   * clients.
   */
  headers: Record<string, string>;
  /** Why no server decided. If it is set, the failure mode has determined all other fields. */
  failed?: StintError;
}

/** The error of a failed call: an unexpected answer, or no answer. */
export class StintError extends Error {
  override name = "StintError";
  constructor(
    message: string,
    /** The status of the answer, or 0 if there is no answer. */
    readonly status: number,
    /** The server's explanation. */
    readonly problem?: Problem,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

type Amount = number | NonNullable<Costs>;

const amendTimeout = 2000;
const longPoll = 30;
const retryPause = 1000;
const late = "no answer in time";

export class Stint {
  readonly #urls: string[];
  readonly #options: Options;
  #first = 0; // the index of the server to ask first
  #denials = new Map<string, { answer: Answer; until: number }>();

  constructor(options: Options) {
    const { token, url } = options;
    const scope = globalThis as { window?: unknown; document?: unknown };
    if (token !== undefined && scope.window !== undefined && scope.document !== undefined) {
      throw new StintError("The token of stint is a secret, and this is a browser: call stint from your server.", 0);
    }
    this.#urls = [url].flat().map((server) => server.replace(/\/+$/, ""));
    if (this.#urls.length === 0) throw new StintError("There is no server; want url: \"http://localhost:8080\".", 0);
    this.#options = options;
  }

  /**
   * Decides a request, and charges it if there is room. A request without an id gets one, so that a
   * retry is not charged again.
   */
  async take(request: Request, options: CallOptions = {}): Promise<Answer> {
    const key = JSON.stringify(request);
    // If #amend replaces this.#denials during the call, the answer may be out of date. It is then
    // stored in the old map, which is no longer used.
    const denials = this.#denials;
    const known = denials.get(key);
    if (known) {
      const left = known.until - Date.now();
      if (left > 0) return delayed(known.answer, left / 1000);
      denials.delete(key);
    }
    const answer = await this.#decide("take", { ...request, id: request.id ?? crypto.randomUUID() }, options);
    const wait = answer.retry_after_seconds;
    const most = this.#options.denyCache ?? 1000;
    if (answer.cacheable && wait && most > 0 && !request.id) {
      for (const oldest of denials.keys()) {
        if (denials.size < most) break;
        denials.delete(oldest);
      }
      denials.set(key, { answer, until: Date.now() + wait * 1000 });
    }
    return answer;
  }

  /** Answers as take would, but charges nothing. */
  peek(request: Request, options: CallOptions = {}): Promise<Answer> {
    return this.#decide("peek", request, options);
  }

  /**
   * Waits until the request is allowed. Requests are served in order of arrival across all
   * processes. A request joins the line at most 30 seconds before its turn. With a timeout or
   * max_wait_seconds, wait denies a request as soon as it is known that its turn will not come in
   * time. If the signal ends the call, the request leaves the line. While no server answers, the
   * client asks again every second until the timeout.
   */
  async wait(request: WaitRequest, options: CallOptions = {}): Promise<Answer> {
    const end = Date.now() + Math.min(options.timeout ?? Infinity, (request.max_wait_seconds ?? Infinity) * 1000);
    for (;;) {
      const seconds = Math.max(Math.min((end - Date.now()) / 1000, longPoll), 0.001);
      const timeout = seconds * 1000 + (this.#options.timeout ?? 250) + amendTimeout;
      let pause;
      try {
        const answer = await this.#ask("wait", { ...request, max_wait_seconds: seconds }, { ...options, timeout });
        if (answer.allowed || answer.retry_after_seconds === null) return answer;
        pause = answer.retry_after_seconds * 1000;
        if (pause > end - Date.now()) return answer;
        // A call keeps its place in line for at most longPoll seconds. If the turn comes later,
        // pause first, then join the line.
        if (pause > longPoll * 1000) pause -= (longPoll - 5) * 1000;
      } catch (err) {
        pause = Math.min(retryPause, end - Date.now());
        if (pause <= 0 || !passing(err)) return this.#fail(err, "deny");
      }
      await sleep(pause, options.signal);
    }
  }

  /** Replaces the charged cost with the actual cost. A charge can be settled or refunded once. */
  settle(decision: Charged, cost: Amount, options: CallOptions = {}): Promise<Changed> {
    return this.#amend("settle", decision, amount(cost), options);
  }

  /** Gives back everything that was charged. */
  refund(decision: Charged, options: CallOptions = {}): Promise<Changed> {
    return this.#amend("refund", decision, {}, options);
  }

  /** Gives back a place under a concurrency limit. */
  release(decision: Charged, options: CallOptions = {}): Promise<Changed> {
    return this.#amend("release", decision, {}, options);
  }

  /**
   * Sends a heartbeat, which renews a hold or a place for its full length. The heartbeat can report
   * what has been used so far.
   */
  extend(decision: Charged, used?: Amount, options: CallOptions = {}): Promise<Changed> {
    return this.#amend("extend", decision, used === undefined ? {} : amount(used), options);
  }

  /**
   * Takes a request with estimated costs, and holds them for hold_seconds (60 unless set).
   * Heartbeats renew the hold until it is settled, refunded or released. If this process dies, the
   * costs are given back, except costs that heartbeats have reported as used.
   */
  async hold(request: Request, options: CallOptions = {}): Promise<Held> {
    return new Held(this, await this.take({ ...request, hold_seconds: request.hold_seconds ?? 60 }, options));
  }

  /**
   * Pauses the calls of all processes to an API, because the API has asked one of them to pause.
   * Requires a token. Returns the pause in force.
   */
  async cooldown(api: string, seconds: number, options: CallOptions = {}): Promise<Pause> {
    const [pause] = await this.#post<Pause>("cooldown", { api, for_seconds: seconds }, options, amendTimeout, "paused_seconds");
    return pause;
  }

  async #ask(operation: string, body: object, options: CallOptions): Promise<Answer> {
    const usual = this.#options.timeout ?? 250;
    const [decision, headers] = await this.#post<Decision>(`${operation}?status=200`, body, options, usual, "allowed");
    return { ...decision, headers };
  }

  async #decide(operation: string, body: object, options: CallOptions): Promise<Answer> {
    try {
      return await this.#ask(operation, body, options);
    } catch (err) {
      return this.#fail(err, "allow");
    }
  }

  #fail(err: unknown, usual: FailureMode): Answer {
    const mode = this.#options.onFailure ?? usual;
    if (!(err instanceof StintError) || mistaken(err) || mode === "throw") throw err;
    return { ...undecided(mode === "allow"), failed: err };
  }

  async #amend(operation: string, decision: Charged, body: object, options: CallOptions): Promise<Changed> {
    const charge = typeof decision === "string" ? decision : decision.charge;
    if (charge === "") return { changed: false };
    const [changed] = await this.#post<Changed>(operation, { charge, ...body }, options, amendTimeout, "changed");
    if (changed.changed) this.#denials = new Map(); // forget them: there may be room again
    return changed;
  }

  /**
   * Asks the servers in turn, each at most twice, until the timeout. Begins with the server that
   * answered last. Repeating a take or an amendment of a charge is safe, because the repeat has the
   * same id or charge. An answer that lacks `member` counts as a failure.
   */
  async #post<T>(operation: string, body: object, options: CallOptions, usual: number, member: keyof T): Promise<[T, Record<string, string>]> {
    const time = options.timeout ?? usual;
    const servers = this.#urls.length;
    const end = performance.now() + time;
    const { token, fetch: call = fetch } = this.#options;
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    const first = this.#first;
    let failed: StintError | undefined;
    for (let attempt = 0; attempt < 2 * servers; attempt++) {
      options.signal?.throwIfAborted();
      const left = end - performance.now();
      if (left <= 0) break;
      const index = (first + attempt) % servers;
      // Each server gets only a share of the time, so that a server that hangs leaves time for the
      // others. A waiting call gets all the time that is left.
      const share = operation.startsWith("wait") ? left : Math.min(left, time / servers);
      // Do not use AbortSignal.any and AbortSignal.timeout: Node 20 may free such signals before
      // they end the call.
      const controller = new AbortController();
      const stop = () => controller.abort();
      const timeout = setTimeout(() => controller.abort(new DOMException(late, "TimeoutError")), timer(share));
      options.signal?.addEventListener("abort", stop);
      try {
        const response = await call(`${this.#urls[index]}/v1/${operation}`, { ...init, signal: controller.signal });
        const { ok, status } = response;
        const answer = await response.json().catch((err) => {
          if (ok && !(err instanceof SyntaxError)) throw err;
        });
        if (ok && typeof answer?.[member] === (member === "paused_seconds" ? "number" : "boolean")) {
          this.#first = index;
          return [answer as T, limitHeaders(response.headers)];
        }
        failed = refused(status, answer);
        if (!ok && status < 500) break;
      } catch (err) {
        options.signal?.throwIfAborted();
        const what = controller.signal.aborted ? late : String(err);
        failed = new StintError(`stint: ${this.#urls[index]}: ${what}`, 0, undefined, { cause: err });
      } finally {
        clearTimeout(timeout);
        options.signal?.removeEventListener("abort", stop);
      }
      this.#first = (index + 1) % servers;
    }
    throw failed ?? new StintError("stint: no time left for a call", 0);
  }
}

/** A charge, or the decision that contains it. */
export type Charged = { charge: Charge } | Charge;

/** A decision whose estimated costs are held. When the work ends, settle, refund or release it. */
export class Held {
  readonly #stint: Stint;
  readonly #beats: ReturnType<typeof setInterval> | undefined;
  #used: Amount | undefined;

  constructor(
    stint: Stint,
    readonly decision: Answer,
  ) {
    this.#stint = stint;
    const seconds = decision.hold_seconds;
    if (decision.allowed && decision.charge !== "" && seconds) {
      this.#beats = setInterval(() => {
        stint.extend(decision, this.#used).catch(() => {}); // the next heartbeat may succeed
      }, (seconds * 1000) / 3);
      (this.#beats as { unref?: () => void }).unref?.();
    }
  }

  get allowed(): boolean {
    return this.decision.allowed;
  }

  /**
   * Sets what has been used so far. The next heartbeat reports it. If the process dies, usage that
   * no heartbeat has reported is not charged.
   */
  used(cost: Amount): void {
    this.#used = cost;
  }

  settle(cost: Amount, options?: CallOptions): Promise<Changed> {
    clearInterval(this.#beats);
    return this.#stint.settle(this.decision, cost, options);
  }

  refund(options?: CallOptions): Promise<Changed> {
    clearInterval(this.#beats);
    return this.#stint.refund(this.decision, options);
  }

  release(options?: CallOptions): Promise<Changed> {
    clearInterval(this.#beats);
    return this.#stint.release(this.decision, options);
  }
}

/**
 * Returns the status and the body of a response that refuses a request. The server's gateway and
 * the Go middleware send the same status and body.
 */
export function refusal(answer: Answer): { status: number; body: string } {
  const seconds = answer.retry_after_seconds;
  if (answer.failed) {
    const message = "The service cannot take requests at the moment. Please try again.";
    return { status: 503, body: JSON.stringify({ error: "unavailable", message, retry_after_seconds: 1 }) + "\n" };
  }
  const body = {
    error: "rate_limited",
    message:
      seconds === null
        ? "This request is more than its limit will ever allow. Waiting does not help."
        : "Too many requests. Please slow down.",
    retry_after_seconds: seconds === null ? undefined : Math.max(Math.ceil(seconds), 1),
    policy: answer.policy || undefined,
    tier: answer.tier || undefined,
    contact: answer.contact || undefined,
    denial: answer.denial,
  };
  return { status: 429, body: JSON.stringify(body) + "\n" };
}

const mistaken = (err: StintError) => [400, 404, 405, 413, 415].includes(err.status);

/**
 * Reports whether a failed call may succeed if it is repeated. A call that the server has refused,
 * for example because it has no token, will not.
 */
const passing = (err: unknown) => err instanceof StintError && (err.status < 400 || err.status === 429 || err.status >= 500);

/** Returns the error for an unexpected answer. */
function refused(status: number, answer: unknown): StintError {
  const problem = answer as Problem | null | undefined;
  if (typeof problem?.message !== "string") return new StintError(`stint: an unexpected answer with the status ${status}`, status);
  const mistakes = problem.mistakes?.map((m) => ` ${m.field}: ${m.message}.`).join("") ?? "";
  return new StintError(`stint: ${problem.message}${mistakes}`, status, problem);
}

/**
 * Rounds a duration up to whole milliseconds, and limits it to the longest that setTimeout
 * supports. A timer with a longer duration would fire at once.
 */
const timer = (milliseconds: number) => Math.min(Math.max(Math.ceil(milliseconds), 0), 2 ** 31 - 1);

const amount = (cost: Amount): Partial<SettleRequest & ExtendRequest> =>
  typeof cost === "number" ? { cost } : { costs: cost };

/** Returns the decision that the failure mode makes if no server decides. */
function undecided(allowed: boolean): Answer {
  return {
    allowed, tier: "", policy: "", route: "", skipped: "", cost: 1, retry_after_seconds: allowed ? 0 : 1,
    banned: false, degraded: true, repeat: false, limits: [], shadowed: [], charge: "", contact: "",
    headers: allowed ? {} : { "Retry-After": "1" },
  };
}

/**
 * Returns a remembered denial, with times that count from now. It leaves out the header fields that
 * the client cannot update.
 */
function delayed(answer: Answer, seconds: number): Answer {
  const { RateLimit: _, "X-RateLimit-Reset": __, ...headers } = answer.headers;
  if (headers["Retry-After"]) headers["Retry-After"] = String(Math.max(Math.ceil(seconds), 1));
  const passed = answer.retry_after_seconds! - seconds;
  const left = (time: number | null) => time && Math.max(time - passed, 0);
  const limits = answer.limits.map((limit) => ({
    ...limit, reset_after_seconds: left(limit.reset_after_seconds), retry_after_seconds: left(limit.retry_after_seconds),
  }));
  return { ...answer, retry_after_seconds: seconds, limits, headers };
}

const spelled = (name: string) =>
  name.replace(/(^|-)([a-z])/g, (_, dash: string, letter: string) => dash + letter.toUpperCase()).replace("Ratelimit", "RateLimit");

function limitHeaders(all: Headers): Record<string, string> {
  const headers: Record<string, string> = {};
  all.forEach((value, name) => {
    if (name === "retry-after" || /^(x-)?ratelimit/.test(name)) headers[spelled(name)] = value;
  });
  return headers;
}

function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timeout = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, timer(milliseconds));
    const stop = () => {
      clearTimeout(timeout);
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}
