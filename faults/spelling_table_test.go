package faults

import (
	"slices"
	"strings"
)

// spellingConfig has one limit for each handler of the table. Clients of 127.2.0.0/16 are those
// whose tier has a limit itself.
const spellingConfig = `
client_ip: {trusted_proxies: 127.0.0.1}
tiers:
  - {name: bulk, match: {path: /bulk/**}, identity: ip, limits: 100000/1h}
  - {name: strict, match: {network: 127.2.0.0/16}, identity: ip, limits: 1/1h}
  - {name: everybody, identity: ip, limits: 100000/1h}
policies:
  - {name: static, match: {path: /static/**}, skip: true}
  - {name: login, match: {method: POST, path: /login}, identity: ip, limits: 1/1h}
  - {name: mounted, match: {method: POST, path: /mounted/login}, identity: ip, limits: 1/1h}
  - {name: things, match: {path: /things}, identity: ip, limits: {bulk: 1000/1h, default: 1/1h}}
  - {name: items, match: {path: "/items/{id}"}, identity: ip, per: [id, method], limits: 1/1h}
  - {name: admin, match: {host: admin.example.com}, identity: ip, limits: 1/1h}
  - {name: styles, match: {method: GET, path: "/**/*.css"}, unless: {host: admin.example.com}, skip: true}
  - {name: token, match: {path: /token}, identity: ip, limits: 1/1h}
  - {name: keyed, match: {path: /keyed, header: {X-API-Key: "*"}}, identity: ip, limits: 1/1h}
`

const (
	anyHost = "app.example.com"
	mount   = "/mounted" // which the gateway takes away
)

// Attempts whose requests are yet to be made.
var (
	login = attempt{handler: "login", of: resource{method: "POST", path: "/login"},
		honest: spelled("POST", "/login")}
	things = attempt{handler: "things", of: resource{path: "/things"}, honest: spelled("GET", "/things")}
	tiered = attempt{handler: "x", of: resource{path: "/x"}, honest: spelled("GET", "/x"), strict: true}
	items  = attempt{handler: "items 42", of: resource{method: "GET", path: "/items/42"},
		honest: spelled("GET", "/items/42")}
	mounted = attempt{handler: "login", of: login.of, honest: spelled("POST", mount+"/login")}
	admin   = attempt{handler: "admin", of: resource{host: "admin.example.com"},
		honest: spelledTo("admin.example.com", "GET", "/")}
)

// spelled is a request. Fields are whole lines.
func spelled(method, target string, fields ...string) string {
	return spelledTo(anyHost, method, target, fields...)
}

func spelledTo(host, method, target string, fields ...string) string {
	lines := slices.Concat([]string{method + " " + target + " HTTP/1.1", "Host: " + host, "Content-Length: 0",
		"Connection: close"}, fields)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// spellings are requests that some application takes for one that is limited.
func spellings() []attempt {
	var list []attempt
	for _, s := range []struct {
		of      attempt
		method  string
		targets []string
	}{
		{login, "POST", loginTargets},
		{things, "GET", []string{
			"/things/", "/bulk/../things", "/bulk/..%2fthings", "/bulk/..%2Fthings", "/bulk%2f..%2fthings",
			`/bulk/..\things`, `/bulk\..\things`, `/bulk/\..\..\things`, "/bulk/..;/things", "/bulk/;x/..;/../things",
			"//bulk/things", "//bulk/x/../things", `/\bulk/things`, "//x/things", "//u@bulk/things",
			"/bulk/%2e%2e/things", "/bulk/%2e%2e%2fthings", "/bulk/%5c..%5c..%5cthings", "/bulk/..%5cthings",
			"/things#/bulk/x", "/things?/bulk/x", "/bulk/x/..%2f..%2fthings", "http://bulk/things",
			"http://x/bulk/../things", "http://x//bulk/things", "/bulk/.%2e/things", "/bulk/\t../things",
			"/bulk/.\t./things", "/THINGS", "/bulk/..%2fTHINGS", "/BULK/../things", "/things%23/bulk/x",
			"/bulk/..%3b/things",
		}},
		{tiered, "GET", []string{
			"/bulk/../x", "/bulk/..%2fx", `/bulk/..\x`, `/bulk\..\x`, `/bulk/\..\..\x`, "/bulk/..;/x", "//bulk/x",
			`/\bulk/x`, "/bulk%2f..%2fx", "/bulk/%2e%2e/x",
			"/bulk/..%5cx", "/x#/bulk/x", "http://bulk/x", "//bulk/bulk/../x", "/static/..%2fx", `/static/..\x`,
			`/static/\..\..\x`, "//static/x", "/static/..;/x",
			"/static/../x", "/static/%2e%2e/x", "/static/..%5cx", `/static\..\x`, "/static/x/../../x", "http://static/x",
		}},
		{items, "GET", []string{
			"/items/42/", "/items//42", "/items/4%32", "/items/42;v=1", "/items;v=1/42", "/items/42?x", "/items/42#x",
			`/items\42`, `/items/42\`, "//x/items/42", `/\x/items/42`,
			"/items/x/../42", `/items/x\..\42`, "/items/x%2f..%2f42", "/items/x%5c..%5c42", "/items/%2e/42", "/items%2f42",
			"/items%5c42", "/items/./42", "/items/42/.", "/items/42%2f",
			"/items/4\t2", "/ITEMS/42", "/Items/42/", "/items/42%23x", "/items/42%3bx", "//x/ITEMS/42",
		}},
		{mounted, "POST", []string{
			"/mounted/login", "/mounted//login", "/mounted///login", "/mounted//x/login", "/mounted///x/login",
			"/mounted//x:1/login", "/mounted//u@x/login", "/mounted//x/../login", `/mounted/\x/login`, `/mounted\\x\login`,
			"/mounted/x%2f..%2flogin", `/mounted/x\..\login`, "/mounted/login;x", "/mounted//x/login;y", "/mounted/./login",
			"/mounted/login#x",
		}},
	} {
		for _, target := range s.targets {
			list = append(list, s.of.as(spelled(s.method, target)))
		}
	}
	for _, request := range loginRequests {
		list = append(list, login.as(request))
	}
	for _, request := range adminRequests {
		list = append(list, admin.as(request))
	}
	for _, method := range []string{"get", "Get", "gET"} {
		list = append(list, items.as(spelled(method, "/items/42")), items.as(spelled(method, "//x/items/42")))
	}
	return append(list,
		items.as(spelled("POST", "/items/42", "X-HTTP-Method-Override: GET")),
		items.as(spelled("POST", "/items/42", "X-HTTP-Method: get")),
		items.as(spelled("GET", "/items/42", "X-Method-Override: PUT")),
	)
}

// loginTargets are spellings of /login.
var loginTargets = []string{
	// slashes and dots
	"/login", "/login/", "/login//", "/login/.", "/login/./", "/login/x/..", "//login", "///login", "////login",
	"/./login", "/.//login", "/../login", "/x/../login", "/x/y/../../login", "/x/.././login", "/x//../login",
	"/x/..//login", "/%2e/login", "/%2E/login", "/%2e%2e/login", "/x/%2e%2e/login", "/x/.%2e/login", "/x/%2E./login",
	"/x/%2E%2E/login", "/login/%2e", "/x/..%2flogin", "/x%2f../login", "/x%2f..%2flogin", "/x%2F..%2Flogin",
	"/x%2f%2e%2e%2flogin", "/%2flogin", "/%2Flogin", "/login%2f", "/login%2F", "/.%2flogin",
	// encoded letters
	"/%6cogin", "/%6Cogin", "/%6c%6f%67%69%6e", "/%6C%6F%67%69%6E", "/logi%6e",
	// upper case
	"/LOGIN", "/Login", "/logiN", "/%4cogin", "//x/LOGIN", `/x\..\LOGIN`, "/static/..%2fLOGIN", "/LOGIN;x", "/LOGIN#x",
	"/STATIC/../Login", "/x/../LOGIN/",
	// encoded delimiters
	"/login%23", "/login%23x", "/login%23/x", "/x/../login%23y", "//x/login%23y", "/login%3b", "/login%3Bx",
	"/login%3bx=y", "/x/..%3b/login", "/static/..%3b/login", "/LOGIN%23", "/login%23%2f..%2fx",
	// parameters
	"/login;", "/login;x", "/login;x=y", "/login;jsessionid=1", "/login;x/", "/login;/", "/;/login", "/;x/login",
	"/x;y/../login", "/x/..;/login", "/x/..;y=z/login", "/..;/login", "/.;/login", "/.;x/login", "/%6cogin;x",
	"/login;x?y", "/login;x#y", "/login;%2f..%2fx", "/x/.%2e;/login", "/login;a;b",
	// queries
	"/login?", "/login?x", "/login??", "/login?/../x", "/login?/static/x", "/login?#", "/login?%23",
	"/login?x=http://static/x", `/login?\..\x`,
	// fragments
	"/login#", "/login#x", "/login#/x", "/login#/../x", "/login#?x", "/login?x#y", "/login/#x", "/%6cogin#x",
	"/x/../login#y", "/login#/../static/x",
	// authorities
	"//x/login", "//x:1/login", "//x:/login", "//u@x/login", "//u:p@x/login", "//@x/login", "//a@b@x/login",
	"//x/login/", "//x//login", "//x/../login", "//x/./login", "//x/y/../login",
	"//x/%2e%2e/login", "//x/%6cogin", "//x/..%2flogin", "//x/y%2f..%2flogin", "//x/login;y", "//x/login?y",
	"//x/login#y", "//x/..;/login", "//x.example.com/login", "//127.0.0.1/login",
	"//[::1]/login", "//[::1]:80/login", "//app.example.com/login", "//%78/login", "//x%2fy/login", "///x/login",
	"////x/login", "//x;y/login", "//./login", "//../login", "//..%2f/login",
	"//login/login", "//x/login/x/..", "//*/login", "//x,y/login", "/./x/../login", "//x%00/login", "//x y/login",
	// backslashes
	`/x\..\login`, `/..\login`, `/\x/login`, `/\x\login`, `/\/x/login`, `//\x/login`, `/\\x/login`, `\login`,
	`\\x\login`, `\/x/login`, `//x\login`, `/\login`, `/login\`, `/.\login`, `/x/..\login`,
	`/x\../login`, `/x\%2e%2e\login`, `/login\.`, `/login\x\..`, `/a\b\..\..\login`, `/x\..\login#y`, `/x\..\login?y`,
	`/x\..\login;y`, `//x/y\..\login`, `/x\..\%6cogin`, `/x\..%2flogin`, `/x/..;\login`,
	"/x%5c..%5clogin", "/..%5clogin", "/%5clogin", "/x%5C..%5Clogin", "/x/..%5clogin", "/login%5c", "/x%5c../login",
	`/x\..%5clogin`, `/login\;\x`, "/login%5c;%5cx", `/login\/;\x`, "/login%5c/;%5cx",
	// what is exempt
	`/static/\..\..\login`, `/static\..\login`, `/static/..\login`, `/static/x\..\..\login`, "/static/../login",
	"/static/%2e%2e/login", "/static/..%2flogin", "/static/..%2Flogin", "/static%2f..%2flogin",
	"/static/..%5clogin", "/static/%5c..%5c..%5clogin", "/static/..;/login", "/static/;x/..;/../login",
	"/static/x/../../login", "//static/login", "//static/x/../login", `//static\login`, "///static/login",
	`/\static/login`, "//u@static/login", "//static/../login", "//static/..%2flogin", `//static/..\login`,
	`//x/static/..\login`, "/login#/static/x", "/login?/../static/x", "/static/.%2e/login",
	"/static/.%2e%2flogin", "//static:80/login", "//static@x/login", "/static/../login#/static", `/static/..\..\login`,
	"/login/..;/static/../login", "/static//../../login", "//static//login",
	// control characters and spaces
	"/lo\tgin", "/login\t", "\t/login", "/lo\rgin", "/\rlogin", "/login\x00", "/login\x01", "/login\x1f", "\x0c/login",
	"\x01/login", "/x/.\t./login", "/\t/x/login", "//x\t/login", "/%6\tcogin", "/x\t\\..\\login",
	"/login ", " /login", "/login  ", "  /login", "/static/.\t.\\login", "\t//x/login", " //x/login", " \\\\x\\login",
	"/login\x0b", "/\x7f/../login", "/\xff/../login", "/\xc3\xa9/../login", "/%ff/../login", "/%00/../login",
	"//x/\t../login",
	// absolute form
	"http://app.example.com/login", "http://x/login", "http://x:80/login", "http://u@x/login", "HTTP://x/login",
	"https://x/login", "ws://x/login", "foo://x/login", "file:///login", "file://x/login", "http:///login",
	"http:/login", "http:login", `http:\\x\login`, `http://x\login`, "http://x/y/../login", "http://x//login",
	`http://x/y\..\login`, "http://x/login#y", "http://x/login?y", "http://x/login;y", "http://x//y/login",
	"http://x///y/login", "http://static/login", "http://x/static/../login", `http://x/static/..\login`,
	"http://x//static/login", "http://x/%6cogin", "http://x/y%2f..%2flogin", "http://x/\\y/login", "https:/login",
	"foo:/login", "http://http://x/login", "http://x/..;/login", "http://@/login", "http://x:x/login",
	// long
	"//" + strings.Repeat("x", 9000) + "/login", "/" + strings.Repeat("x", 9000) + "/../login",
	"/" + strings.Repeat("x", 4000) + `\..\login`, "/" + strings.Repeat("x/../", 2000) + "login",
	"/login#" + strings.Repeat("x", 4000), "/login?" + strings.Repeat("x", 9000),
	"/" + strings.Repeat("x", 9000) + "/..%2flogin", "/static/" + strings.Repeat("/", 5000) + `\..\..\login`,
	// formats, decoded several times, front controllers, what is dropped or trimmed
	"/login.json", "/login.", "/LOGIN.a7", "/login.css", "/login.a7/", "//x/login.a7", "/x/..;/login.a7", "/login.a7;x",
	"/%256cogin", "/%25256cogin", "/%2525256cogin", "/%25%36cogin", "/x%252f..%252flogin", "/static/%252e%252e/login",
	"/index.php/login", "/app.php/login", "/index.php//login", "/index.php/login.a7", "/static/../index.php/login",
	"/log%09in", "/%0dlogin", "/login%00", "/login%00.css", "/login%0a", "/login%20", "/login%C2%A0", "/login%C2%85",
	"/index.php%2flogin", "/static/%2e%2e%2findex.php/login",
	// no slash at the beginning
	"login", "./login", "../login", "x/../login", "%2flogin", ";/login", "@x/login", ":80/login", ".example.com/login",
}

// loginRequests are POST /login in other ways.
var loginRequests = []string{
	// methods
	spelled("post", "/login"), spelled("Post", "/login"), spelled("pOST", "/login"), spelled("posT", "/login"),
	spelled("post", "//x/login"), spelled("post", `/static/\..\..\login`), spelled("post", "/login#x"),
	spelled("GET", "/login", "X-HTTP-Method-Override: POST"), spelled("GET", "/login", "X-HTTP-Method: POST"),
	spelled("GET", "/login", "X-Method-Override: POST"),
	spelled("GET", "/login", "X-HTTP-Method-Override: post"), spelled("GET", "/login", "x-http-method-override: Post"),
	spelled("GET", "/login", "X-HTTP-METHOD: post"), spelled("GET", "/login", "X-METHOD-OVERRIDE:POST"),
	spelled("PUT", "/login", "X-HTTP-Method-Override: POST"), spelled("PATCH", "/login", "X-HTTP-Method: POST"),
	spelled("HEAD", "/login", "X-HTTP-Method-Override: POST"), spelled("OPTIONS", "/login", "X-Method-Override: POST"),
	spelled("PROPFIND", "/login", "X-HTTP-Method-Override: POST"),
	spelled("get", "/login", "X-HTTP-Method-Override: post"),
	spelled("GET", "/login", "X_HTTP_Method_Override: POST"), spelled("GET", "/login", "X-HTTP_Method-Override: POST"),
	spelled("GET", "/login", "X_HTTP_Method: POST"), spelled("GET", "/login", "X_Method_Override: POST"),
	spelled("GET", "/login", "X-HTTP-Method-Override: GET", "X-HTTP-Method-Override: POST"),
	spelled("GET", "/login", "X-HTTP-Method-Override: POST", "X-HTTP-Method-Override: GET"),
	spelled("GET", "/login", "X-HTTP-Method-Override:", "X-HTTP-Method-Override: POST"),
	spelled("GET", "/login", "X-HTTP-Method-Override: POST, GET"),
	spelled("GET", "/login", "X-HTTP-Method-Override:\tPOST\t"),
	spelled("GET", "/login", "X-HTTP-Method-Override: GET", "X-Method-Override: POST"),
	spelled("GET", "/login", "X-HTTP-Method: GET", "X-HTTP-Method-Override: POST"),
	spelled("GET", "/login", "X-HTTP-Method-Override:\r\n POST"),
	spelled("GET", "//x/login", "X-HTTP-Method-Override: POST"),
	spelled("GET", `/static/\..\..\login`, "X-HTTP-Method-Override: POST"),
	spelled("GET", "/login;x", "X-HTTP-Method: POST"),
	spelled("POST", "/login", "X-HTTP-Method-Override: GET"), spelled("POST", "/login", "X-HTTP-Method: DELETE"),
	spelled("POST", "/login", "X-Method-Override: HEAD"), spelled("POST", "/login", "X-HTTP-Method-Override: nonsense"),
	spelled("POST", "/login", "X-HTTP-Method-Override: G T"),
	spelled("GET", "/login", "X-HTTP-Method-Override: POST", "Connection: X-HTTP-Method-Override"),
	spelled("POST", "/login", "Connection: close, Content-Length, X-HTTP-Method-Override", "X-HTTP-Method-Override: GET"),
	spelled("POST ", "/login"), spelled("\r\nPOST", "/login"), spelled("\nPOST", "/login"), spelled(" POST", "/login"),
	spelled("POST ", " /login"),
	// fields that say another path or method
	spelled("GET", "/", "X-Original-URL: /login", "X-HTTP-Method-Override: POST"),
	spelled("POST", "/", "X-Original-URL: /login"), spelled("POST", "/", "X-Rewrite-URL: /login"),
	spelled("POST", "/static/x", "X-Original-URL: /login"),
	spelled("POST", "/static/x", "X-Rewrite-URL: /login"), spelled("POST", "/", "X_Original_URL: /login"),
	spelled("POST", "/", "X_Rewrite_URL: /login"), spelled("POST", "/", "X-Original-URL: //x/login"),
	spelled("POST", "/login", "X-Original-URL: /static/x"), spelled("POST", "/login", "X-Original-URI: /static/x"),
	spelled("POST", "/login", "X-Original-URL: http://x/static/x"),
	spelled("POST", "/login", "X-Rewrite-URL: /static/x"),
	spelled("POST", "/login", "X-Forwarded-Uri: /static/x"), spelled("POST", "/login", "X-Forwarded-Method: GET"),
	spelled("POST", "/login", "X-Original-Method: GET"), spelled("POST", "/login", "X-Envoy-Original-Path: /static/x"),
	spelled("POST", "/login", "X-Forwarded-Prefix: /static"), spelled("POST", "/login", "X-Forwarded-Path: /static/x"),
	spelled("POST", "/login", "X_Forwarded_Uri: /static/x"), spelled("POST", "/login", "X_Original_Uri: /static/x"),
	spelled("POST", "/login", "Connection: X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-For"), spelled("POST", "/login", "Connection: X-Original-URI, X-Original-Method, X-Forwarded-For"),
	spelled("POST", "/login", "Connection: Host"),
	spelled("POST", "/login", "Connection: close, upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
	spelled("POST", "/login", "Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
	// fields that say another client
	spelled("POST", "/login", "X-Forwarded-For: 203.0.113.1"), spelled("POST", "/login", "X-Real-IP: 203.0.113.1"),
	spelled("POST", "/login", "Forwarded: for=203.0.113.1"), spelled("POST", "/login", "X_Forwarded_For: 203.0.113.1"),
	spelled("POST", "/login", "X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 203.0.113.2"),
	spelled("POST", "/login", "X-Client-IP: 203.0.113.1"), spelled("POST", "/login", "True-Client-IP: 203.0.113.1"),
	spelled("POST", "/login", "X-Forwarded-For:"),
	// hosts
	spelledTo("", "POST", "/login"), spelledTo("APP.EXAMPLE.COM", "POST", "/login"),
	spelledTo("app.example.com.", "POST", "/login"), spelledTo("app.example.com:80", "POST", "/login"),
	spelledTo("x", "POST", "/login"), spelledTo("[::1]:80", "POST", "/login"),
	spelledTo("static", "POST", "/login"), spelledTo("u@x", "POST", "/login"), spelledTo("x/static", "POST", "/login"),
	spelledTo("x/login?", "POST", "/"), spelledTo("x/login#", "POST", "/"), spelledTo(`x\login?`, "POST", "/"),
	spelledTo("x/login;", "POST", "/"),
	spelledTo("x/login/.", "POST", "/"), spelledTo("x/login?", "POST", "/static/x"), spelledTo("x/", "POST", "/login"),
	spelledTo("x?", "POST", "/login"), spelledTo("x#", "POST", "/login"), spelledTo("x/..", "POST", "/login"),
	spelled("POST", "/", "Host: x/login?"), spelled("POST", "/", "X-Forwarded-Host: x/login?"),
	spelled("POST", "/static/x", "X-Forwarded-Host: x/login?"), spelled("POST", "/login", "X-Forwarded-Host: x"),
	spelled("POST", "/login", "X-Forwarded-Host: a", "X-Forwarded-Host: b"),
	// versions and forms
	"POST /login HTTP/1.0\r\nContent-Length: 0\r\n\r\n", "POST /login HTTP/1.0\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "POST //x/login HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
	"POST /login\r\n\r\n", "POST /login HTTP/0.9\r\n\r\n", "POST /login HTTP/1.2\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "POST /login HTTP/2.0\r\nHost: x\r\nConnection: close\r\n\r\n", "POST /login http/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
	"POST /login HTTP/1.1\nHost: x\nConnection: close\nContent-Length: 0\n\n", "POST\t/login\tHTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "POST /login\tHTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
	"POST /login# HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
	"POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
	"POST /login HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "POST /login HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
	"GET /static/x HTTP/1.1\r\nHost: x\r\n\r\n" + spelled("POST", "/login"),
	"GET /static/x HTTP/1.1\r\nHost: x\r\n\r\n" + spelled("POST", "//x/login"),
}

// adminRequests are requests to admin.example.com.
var adminRequests = []string{
	spelledTo("admin.example.com", "GET", "/x"), spelledTo("ADMIN.example.com", "GET", "/"),
	spelledTo("Admin.Example.Com", "GET", "/"), spelledTo("admin.example.com.", "GET", "/"),
	spelledTo("admin.example.com:80", "GET", "/"),
	spelledTo("admin.example.com:8000", "GET", "/"), spelledTo("admin.example.com:", "GET", "/"),
	spelledTo("admin.example.com.:80", "GET", "/"), spelledTo("ADMIN.EXAMPLE.COM.", "GET", "/"),
	spelledTo("admin.example.com..", "GET", "/"),
	spelledTo("admin.example.com,x", "GET", "/"), spelledTo("x, admin.example.com", "GET", "/"),
	spelledTo("x", "GET", "/", "X-Forwarded-Host: admin.example.com, x"),
	spelledTo("u@admin.example.com", "GET", "/"), spelledTo("admin.example.com:x", "GET", "/"),
	spelledTo("admin.example.com:80:80", "GET", "/"), spelledTo("\tadmin.example.com\t", "GET", "/"),
	spelledTo("x", "GET", "http://admin.example.com/"), spelledTo("admin.example.com", "GET", "http://x/"),
	spelledTo("x", "GET", "http://ADMIN.example.com.:80/"), spelledTo("x", "GET", "http://u@admin.example.com/"),
	spelledTo("x", "GET", "http://admin.example.com"),
	spelledTo("admin.example.com", "GET", "/", "X-Forwarded-Host: x"),
	spelledTo("x", "GET", "/", "X-Forwarded-Host: admin.example.com"),
	spelledTo("x", "GET", "/", "Host: admin.example.com"), spelledTo("admin.example.com", "GET", "/", "Host: x"),
	spelledTo("x", "GET", "/", "X_Forwarded_Host: admin.example.com"), spelledTo("admin.example.com", "GET", "//x/"),
	spelledTo("admin.example.com", "get", "/"), spelledTo("x", "GET", "https://admin.example.com/"),
	spelledTo("admin.example.com", "GET", "//x/y"), spelledTo("x", "GET", "http://admin.example.com?x"),
	spelledTo("x", "GET", "http://admin.example.com#x"),
	"GET / HTTP/1.0\r\nHost: admin.example.com\r\n\r\n", "GET http://admin.example.com/ HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost : admin.example.com\r\nConnection: close\r\n\r\n", "GET / HTTP/1.1\r\nhOST:admin.example.com\r\nConnection: close\r\n\r\n",
	"GET / HTTP/1.1\r\nHost:\r\n admin.example.com\r\nConnection: close\r\n\r\n",
}
