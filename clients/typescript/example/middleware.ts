import { Stint } from "stint-client";
import { rateLimitMiddleware } from "stint-client/next";
import { sessionOf } from "./session.js";

export const middleware = rateLimitMiddleware({
  stint: new Stint({ url: process.env.STINT_URL!, token: process.env.STINT_TOKEN! }),
  claims: sessionOf, // { user: "42", plan: "pro" }: the tiers are in stint.yaml
  peer: (request) => request.headers.get("x-real-ip"),
});
export const config = { matcher: "/api/:path*" };
