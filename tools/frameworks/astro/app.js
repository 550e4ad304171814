// An Astro application: its server, router and endpoints, and the manifest that a build would
// write. Building needs Vite and a compiler, which are most of what Astro installs; package.json
// replaces them with an empty package.
import { createServer } from "node:http";
import { NodeApp } from "astro/app/node";

function ran(handler) {
  return new Response(`ran ${handler}`, { headers: { Ran: handler } });
}

// The files in src/pages, with the patterns that Astro derives from their names.
const pages = {
  "/login": { pattern: /^\/login\/?$/, POST: () => ran("login") },
  "/things": { pattern: /^\/things\/?$/, GET: () => ran("things") },
  "/token": { pattern: /^\/token\/?$/, GET: () => ran("token") },
  "/x": { pattern: /^\/x\/?$/, GET: () => ran("x") },
  "/items/[id]": {
    pattern: /^\/items\/([^/]+?)\/?$/,
    params: ["id"],
    GET: ({ params }) => ran("items " + encodeURIComponent(params.id)),
  },
  "/keyed": {
    pattern: /^\/keyed\/?$/,
    GET: ({ request }) => ran("keyed " + encodeURIComponent(request.headers.get("X-API-Key") ?? "")),
  },
  "/[...any]": {
    pattern: /^(?:\/(.*?))?\/?$/,
    params: ["...any"],
    ALL: () => new Response("", { status: 404 }),
  },
};

function segmentsOf(route) {
  return route
    .split("/")
    .filter(Boolean)
    .map((name) => [
      { content: name.replace(/[[\]]/g, ""), dynamic: name.startsWith("["), spread: name.startsWith("[...") },
    ]);
}

const routes = Object.entries(pages).map(([route, { pattern, params = [] }]) => ({
  file: "",
  links: [],
  scripts: [],
  styles: [],
  routeData: {
    type: "endpoint",
    origin: "project",
    route,
    component: `src/pages${route}.ts`,
    pattern,
    params,
    segments: segmentsOf(route),
    fallbackRoutes: [],
    distURL: [],
    isIndex: false,
    prerender: false,
  },
}));

async function adminFirst({ url }, next) {
  return url.hostname === "admin.example.com" ? ran("admin") : next();
}

const here = new URL(".", import.meta.url);
const app = new NodeApp({
  adapterName: "@astrojs/node",
  routes,
  pageMap: new Map(routes.map(({ routeData: r }) => [r.component, async () => ({ page: async () => pages[r.route] })])),
  base: "/",
  trailingSlash: "ignore",
  buildFormat: "directory",
  compressHTML: true,
  serverLike: true,
  middlewareMode: "classic",
  middleware: () => ({ onRequest: adminFirst }),
  renderers: [],
  clientDirectives: new Map(),
  entryModules: {},
  inlinedScripts: new Map(),
  assets: new Set(),
  componentMetadata: new Map(),
  checkOrigin: false,
  allowedDomains: [{}],
  actionBodySizeLimit: 0,
  serverIslandBodySizeLimit: 0,
  cacheDir: here,
  srcDir: here,
  outDir: here,
  rootDir: here,
  publicDir: here,
  assetsDir: "_astro",
  buildClientDir: here,
  buildServerDir: here,
  image: {},
  shouldInjectCspMetaTags: false,
  devToolbar: { enabled: false },
  logLevel: "silent",
});

const [address, port] = process.argv.slice(2);
createServer(async (req, res) => { // as in @astrojs/node
  let request;
  try {
    request = NodeApp.createRequest(req, { allowedDomains: app.getAllowedDomains(), port: Number(port) });
  } catch {
    res.writeHead(400).end();
    return;
  }
  await NodeApp.writeResponse(await app.render(request, { routeData: app.match(request, true) }), res);
}).listen(Number(port), address);
