/**
 * Limits for Express, and for node:http.
 *
 *     app.use(rateLimit({ stint, claims: (request) => ({ user: request.user.id }) }));
 */
import type { LimitOptions } from "./fetch.js";
import { refusal, type Request as Asked } from "./index.js";

/** The parts of Express's request and response that the middleware uses. */
export interface ExpressRequest {
  method: string;
  url: string;
  originalUrl?: string;
  headers: Record<string, string | string[] | undefined>;
  socket: { remoteAddress?: string | undefined };
}

export interface ExpressResponse {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
}

export type ExpressOptions<R> = Omit<LimitOptions<R>, "peer">;

/**
 * Middleware for Express. It sends the address of the connection to stint. If clients connect
 * through a proxy, list the proxy under client_ip.trusted_proxies in the configuration. Also send
 * the header field that the proxy writes (headers: ["x-forwarded-for"]).
 */
export function rateLimit<R extends ExpressRequest>(options: ExpressOptions<R>) {
  return async (request: R, response: ExpressResponse, next: (err?: unknown) => void): Promise<void> => {
    try {
      const asked = options.ask ? await options.ask(request) : await question(request, options);
      if (asked) {
        const answer = await options.stint.take(asked);
        for (const [name, value] of Object.entries(answer.headers)) response.setHeader(name, value);
        if (!answer.allowed) {
          const { status, body } = refusal(answer);
          response.statusCode = status;
          response.setHeader("Content-Type", "application/json");
          response.setHeader("Cache-Control", "no-store");
          response.end(body);
          return;
        }
      }
    } catch (err) {
      next(err);
      return;
    }
    next();
  };
}

async function question<R extends ExpressRequest>(request: R, options: ExpressOptions<R>): Promise<Asked> {
  const asked: Asked = { method: request.method, path: request.originalUrl ?? request.url };
  const host = request.headers["host"];
  if (typeof host === "string" && host !== "") asked.host = host;
  const peer = request.socket.remoteAddress;
  if (peer) asked.peer = peer;
  if (options.claims) asked.claims = await options.claims(request);
  for (const name of options.headers ?? []) {
    const value = request.headers[name.toLowerCase()];
    if (value !== undefined) (asked.headers ??= {})[name] = [value].flat().join(", ");
  }
  return asked;
}
