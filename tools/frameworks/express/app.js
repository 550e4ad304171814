// An Express application behind a proxy that it trusts.
import express from "express";

const app = express();
app.set("trust proxy", true);
app.set("env", "test"); // logs no errors

function ran(res, handler) {
  res.set("Ran", handler).type("text").send(`ran ${handler}`);
}

app.use((req, res, next) => (req.hostname?.toLowerCase() === "admin.example.com" ? ran(res, "admin") : next()));
app.post("/login", (req, res) => ran(res, "login"));
app.get("/things", (req, res) => ran(res, "things"));
app.get("/token", (req, res) => ran(res, "token"));
app.get("/x", (req, res) => ran(res, "x"));
app.get("/items/:id", (req, res) => ran(res, "items " + encodeURIComponent(req.params.id)));
app.get("/keyed", (req, res) => ran(res, "keyed " + encodeURIComponent(req.get("X-API-Key") ?? "")));

const [address, port] = process.argv.slice(2);
app.listen(Number(port), address);
