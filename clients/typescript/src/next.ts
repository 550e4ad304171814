/**
 * Limits for the middleware and the route handlers of Next.js.
 *
 *     export const middleware = rateLimitMiddleware({ stint, claims: (request) => ({ user: userOf(request) }) });
 *     export const GET = withRateLimit(handler, { stint, ask: () => ({ subject: "user:42", policy: "search" }) });
 */
import { decide, denied, type LimitOptions } from "./fetch.js";

export { withRateLimit, type LimitOptions } from "./fetch.js";

/**
 * Middleware that denies a request, or passes it on and adds the header fields about limits to the
 * response.
 */
export function rateLimitMiddleware(options: LimitOptions) {
  return async (request: Request): Promise<Response> => {
    const answer = await decide(request, options);
    if (answer && !answer.allowed) return denied(answer);
    // This is the response that NextResponse.next() of next/server returns.
    return new Response(null, { headers: { ...answer?.headers, "x-middleware-next": "1" } });
  };
}
