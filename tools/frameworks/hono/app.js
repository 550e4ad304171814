// A Hono application on Node.
import { serve } from "@hono/node-server";
import { Hono } from "hono";

const app = new Hono();

function ran(c, handler) {
  return c.text(`ran ${handler}`, 200, { Ran: handler });
}

app.use((c, next) => (new URL(c.req.url).hostname === "admin.example.com" ? ran(c, "admin") : next()));
app.post("/login", (c) => ran(c, "login"));
app.get("/things", (c) => ran(c, "things"));
app.get("/token", (c) => ran(c, "token"));
app.get("/x", (c) => ran(c, "x"));
app.get("/items/:id", (c) => ran(c, "items " + encodeURIComponent(c.req.param("id"))));
app.get("/keyed", (c) => ran(c, "keyed " + encodeURIComponent(c.req.header("X-API-Key") ?? "")));

const [address, port] = process.argv.slice(2);
serve({ fetch: app.fetch, hostname: address, port: Number(port) });
