/**
 * Limits for fetch handlers (workers, Deno.serve, Bun.serve, route handlers) and for Hono.
 *
 *     export default { fetch: withRateLimit(handler, { stint, claims: (request) => ({ user: userOf(request) }) }) };
 *     app.use(honoRateLimit({ stint, peer: (request) => request.headers.get("CF-Connecting-IP") }));
 */
import { refusal, type Answer, type Claims, type Request as Asked, type Stint } from "./index.js";

export interface LimitOptions<R = Request> {
  stint: Stint;
  /** Claims about the client that the application has verified, such as { user, plan }. */
  claims?: (request: R) => Claims | Promise<Claims>;
  /**
   * Returns the client's address. Required if the configuration limits by address. Use only a
   * header that your proxy writes.
   */
  peer?: (request: R) => string | null | undefined;
  /**
   * The header fields that the configuration matches, or by which it identifies clients. No other
   * fields are sent to stint.
   */
  headers?: string[];
  /**
   * Returns the question to ask the server, such as { subject, policy }, or undefined if the
   * request is not limited. By default, the question is the HTTP request, with its method, path and
   * so on.
   */
  ask?: (request: R) => Asked | undefined | Promise<Asked | undefined>;
}

/** Returns the question for the server about a request, or undefined if the request is not limited. */
export async function question(request: Request, options: LimitOptions): Promise<Asked | undefined> {
  if (options.ask) return options.ask(request);
  const url = new URL(request.url);
  const asked: Asked = { method: request.method, path: url.pathname, host: url.host };
  const peer = options.peer?.(request);
  if (peer) asked.peer = peer;
  if (options.claims) asked.claims = await options.claims(request);
  for (const name of options.headers ?? []) {
    const value = request.headers.get(name);
    if (value !== null) (asked.headers ??= {})[name] = value;
  }
  return asked;
}

/** Decides a request. The answer is undefined if the request is not limited. */
export async function decide(request: Request, options: LimitOptions): Promise<Answer | undefined> {
  const asked = await question(request, options);
  return asked && options.stint.take(asked, { signal: request.signal });
}

/** Returns the response to a denied request. */
export function denied(answer: Answer): Response {
  const { status, body } = refusal(answer);
  const headers = { ...answer.headers, "Content-Type": "application/json", "Cache-Control": "no-store" };
  return new Response(body, { status, headers });
}

/**
 * Adds the header fields about limits to a response. A response that cannot be copied, such as
 * Response.error() or a response with status 101, is returned unchanged.
 */
export function withHeaders(response: Response, answer: Answer): Response {
  if (response.status < 200 || response.status > 599) return response;
  const named = new Response(response.body, response);
  for (const [name, value] of Object.entries(answer.headers)) named.headers.set(name, value);
  return named;
}

/** Limits the requests to a handler. Arguments after the request are passed on to the handler. */
export function withRateLimit<Rest extends unknown[]>(
  handler: (request: Request, ...rest: Rest) => Response | Promise<Response>,
  options: LimitOptions,
): (request: Request, ...rest: Rest) => Promise<Response> {
  return async (request, ...rest) => {
    const answer = await decide(request, options);
    if (!answer) return handler(request, ...rest);
    return answer.allowed ? withHeaders(await handler(request, ...rest), answer) : denied(answer);
  };
}

/** The parts of Hono's context that the middleware uses. */
export interface HonoContext {
  req: { raw: Request };
  header(name: string, value: string): void;
}

/** Middleware for Hono. */
export function honoRateLimit(options: LimitOptions) {
  return async (context: HonoContext, next: () => Promise<void>): Promise<Response | void> => {
    const answer = await decide(context.req.raw, options);
    if (answer && !answer.allowed) return denied(answer);
    for (const [name, value] of Object.entries(answer?.headers ?? {})) context.header(name, value);
    await next();
  };
}
