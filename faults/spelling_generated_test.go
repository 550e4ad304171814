package faults

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

var (
	spellingCount = flag.Int("spellings", 100, "how many spellings are generated and tried in front of frameworks")
	spellingSeed  = flag.Uint64("seed", 1, "of the spellings that are generated")
)

// honestAttempts have one request for each handler of the frameworks. Readers are not asked.
func honestAttempts() []attempt {
	list := []attempt{login, things, items, tiered, admin,
		{handler: "token", honest: spelled("GET", "/token")},
		{handler: "keyed k", honest: spelled("GET", "/keyed", "X-API-Key: k")}}
	for i := range list {
		list[i].of = resource{}
	}
	return list
}

// absoluteAttempts have targets in absolute form, and what looks like it, that some reader takes for
// /login: schemes by slashes by authorities. Others hide the host in such a target, or between it
// and the field of that name.
func absoluteAttempts() []attempt {
	var list []attempt
	for _, scheme := range []string{"http", "HTTP", "https", "ws", "x", "file", "1", ""} {
		for _, slashes := range []string{":", ":/", "://", ":///", ":////", `:\`, `:\\`, `:/\`, `://\`, "//"} {
			for _, authority := range []string{
				"", "x7", "app.example.com", "u@x7", "u:p@x7", "@", "x7:80", "x7:", ":80", "[::1]", "[::1]:80", "..",
				"x7;y", "x7%2f", "%2f", "x7,y", "x7?y", "x7#y",
			} {
				for _, path := range []string{"/login", "/x7/login", "//login", `\login`, "/static/../login", "/login/", "/login?z"} {
					request := spelled("POST", scheme+slashes+authority+path)
					in, err := readArrival(bufio.NewReader(strings.NewReader(request)))
					if err == nil && in.runs(login.of) != "" {
						list = append(list, login.as(request))
					}
				}
			}
		}
	}
	for _, target := range []string{
		"http:///", "http://", "http:/", "http:", "http:////", "HTTP:///", "https:///", "x:///", "http:///x", "http:/x",
		"http:x", "http://x", "http://x/", "http://:80/", "http://u@/", "http://@/", "http://x:80/", "http://?",
		"http://#", "http:///?y", "http://admin.example.com/", "http://admin.example.com", "http:///admin.example.com/",
		"http:/admin.example.com/", "http:admin.example.com/", `http:\\admin.example.com/`, "//admin.example.com/", "*",
		"admin.example.com:80", "x",
	} {
		for _, host := range []string{"admin.example.com", "x", "", "admin.example.com:80", "ADMIN.example.com."} {
			request := spelledTo(host, "GET", target)
			list = append(list, admin.as(request), admin.as(strings.Replace(request, "/1.1", "/1.0", 1)))
		}
		list = append(list, admin.as("GET "+target+" HTTP/1.0\r\nConnection: close\r\n\r\n"))
	}
	return list
}

// target is where the honest request of an attempt goes.
func (a attempt) target() (method, path string) {
	fields := strings.Fields(a.honest)
	return fields[0], fields[1]
}

// frameworkAttempts are spellings that some framework, server or library is known to take for
// others.
func frameworkAttempts() []attempt {
	var list []attempt
	for _, a := range honestAttempts() {
		switch a.handler {
		case "admin":
			for _, request := range hostRequests() {
				list = append(list, a.as(request))
			}
		case "keyed k":
			for _, name := range keyNames {
				list = append(list, a.as(spelled("GET", "/keyed", name+": k")))
			}
		default:
			method, path := a.target()
			targets := slices.Concat(withLookalike(path), []string{path + ".css", path + ".a7"})
			if a.handler == "login" || a.handler == "items 42" { // the others are like them
				targets = respelled(path)
			}
			for _, target := range targets {
				list = append(list, a.as(spelled(method, target)))
			}
		}
	}
	return list
}

// withLookalike has another letter in a path: in place of the first any, and of the others one that
// only they have.
func withLookalike(path string) []string {
	var list []string
	for i := 1; i < len(path); i++ {
		others := foldings[path[i]]
		if i == 1 {
			others = lookalikes(path[i])
		}
		for _, other := range others {
			list = append(list, path[:i]+other+path[i+1:])
		}
	}
	return list
}

// respelled are other spellings of a path.
func respelled(path string) []string {
	name := path[1:]
	half := len(path) / 2
	list := withLookalike(path)
	for _, ending := range endings {
		list = append(list, path+ending)
	}
	for depth := range 5 { // once to five times encoded
		percent := "%" + strings.Repeat("25", depth)
		list = append(list, "/"+encoded(name[:1], percent)+name[1:], "/"+encoded(name, percent),
			path+percent+"2f", path+percent+"3bx", path+percent+"23x", path+percent+"3fx", path+percent+"00",
			"/q"+percent+"2f.."+percent+"2f"+name, "/q/"+percent+"2e"+percent+"2e/"+name, "/"+percent+"2f"+name)
	}
	for _, script := range []string{
		"/index.php", "/INDEX.PHP", "//index.php", "/index.php/", "/index.php/.", "/q/../index.php",
		"/index.php/index.php", "/%69ndex.php", "/index.php;q", "/index%2ephp", "/app.php", "/index.html",
		"/index.php%2f..",
	} {
		list = append(list, script+path)
	}
	list = append(list, "/index.php?"+path, "/index.php%2f"+name, "/index.php/"+encoded(name, "%"),
		"/index.php"+path+"/",
		"/index.php"+path+".css", "/?"+path, "/?s="+path, "/?_path="+path)
	for _, space := range spaces {
		list = append(list, path[:half]+space+path[half:], path+space, "/"+space+name, space+path, path+space+".css")
	}
	for _, slash := range []string{"%c0%af", "%e0%80%af", "%ef%bc%8f", "%e2%81%84", "%ef%bc%bc", "%u002f", "%u2215"} {
		list = append(list, slash+name, "/q"+slash+".."+slash+name, strings.ReplaceAll(path, "/", slash), path+slash)
	}
	for _, dot := range []string{"%c0%ae", "%ef%bc%8e", "%e2%80%a4", "%u002e"} {
		list = append(list, "/q/"+dot+dot+path, "/"+dot+path, path+dot+"json")
	}
	for _, origin := range []string{
		"http://q", "http:///q7", "http:///", "http:////q", "http:", "http:/", "http:/q", `http:\\q`, `http:/\q`,
		"HTTP:///q", "https:///q", "ftp://q", "ws:///q", "file:///q", "//", "///q", "*", "q:", "http://q:80",
		"http://%71", "http://[::1]", "http://", "http:// ", "http://#", "http://?", "http:///q/..",
		"http://q/index.php",
	} {
		list = append(list, origin+path)
	}
	return list
}

var endings = []string{
	".json", ".css", ".a7", ".html", ".php", ".", "..", ".j", ".JSON", ".json/", ".json;q", ".tar.gz", "..json",
	"%2ejson", "%2Ecss", "%252ejson", ".%6a%73", ".css?q", ".css#q", ".json%00", ".~", ".css%2f", "/.css", "/.json",
	".%63ss", ".-", "._", "(.json)", "&q", "&format=json", "%26q", ",", ",q", ":", ":q", "!", "'", "%22", "+", "*", "=",
	"~", "@", "$", "%", "%zz", "%2", "|", "^", "`", "{q}", "<q>", "%3c", "[]", "/index", "/index.html", "/index.php",
}

var spaces = []string{
	"%00", "%01", "%08", "%09", "%0a", "%0b", "%0c", "%0d", "%0d%0a", "%1f", "%20", "%7f", "%85", "%a0", "%c2%85",
	"%c2%a0", "%c2%ad", "%ad", "%e2%80%8b", "%e2%80%a8", "%ef%bb%bf", "%e3%80%80", "%ff", "\x85", "\xa0", "+", "\x0b",
	"\x0c",
}

// lookalikes of a letter are what folding of case, normal forms and careless decoders make it of.
func lookalikes(c byte) []string {
	list := []string{
		fmt.Sprintf("%%%02x", c|0x20), fmt.Sprintf("%%%02X", c&^0x20), strings.ToUpper(string(c)),
		fmt.Sprintf("%%u%04x", c), // of IIS
		fmt.Sprintf("%%%02x%%%02x", 0xc0|c>>6, 0x80|c&0x3f),
		fmt.Sprintf("%%e0%%%02x%%%02x", 0x80|c>>6, 0x80|c&0x3f),
	}
	if 'a' <= c && c <= 'z' {
		for _, first := range []rune{'Ａ', 'ａ', 'Ⓐ', 'ⓐ', '𝐀', '𝐚', '𝖺'} {
			offset := rune(c - 'a')
			list = append(list, encoded(string(first+offset), "%"))
		}
	}
	if '0' <= c && c <= '9' {
		list = append(list, encoded(string('０'+rune(c-'0')), "%"), encoded(string('٠'+rune(c-'0')), "%"))
	}
	return append(list, foldings[c]...)
}

// foldings of a letter are what some libraries take for it if they ignore case or accents.
var foldings = map[byte][]string{
	'k': {"%e2%84%aa"}, 's': {"%c5%bf"}, 'i': {"%c4%b0", "%c4%b1", "%e2%85%b0"}, 'l': {"%e2%85%bc"},
	'x': {"%e2%85%b9"}, 'e': {"%c3%a9", "e%cc%81"},
}

// encoded has every byte of a text after percent as two digits.
func encoded(text, percent string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%s%02x", percent, c)
	}
	return b.String()
}

var oddHosts = []string{
	"admin.example.com,q", "admin.example.com, q", "q,admin.example.com", "q, admin.example.com", ",admin.example.com",
	"admin.example.com ,q", "admin.example.com q", "q admin.example.com", "admin.example.com;q", "admin.example.com/q",
	`admin.example.com\q`, "admin.example.com?q", "admin.example.com#q", "q@admin.example.com", "q:q@admin.example.com",
	"%61dmin.example.com", "admin%2eexample.com", "admin.example.com%00", "admin.example.com%20",
	"admin.example.com%2f", "admin.example.com:80,q", "admin.example.com:99999", "admin.example.com:0",
	"admin.example.com:q", "admin.example.com::80", "ａdmin.example.com", "admin。example.com", "admin.example\u00ad.com",
	"ADMIN.EXAMPLE.COM:443", "admin.example.com.", "admin.example.com.:80", "[admin.example.com]",
	"admin.example.com\t", "admin.example.com\x00", "admin.example.com\x0b", "admin..example.com", ".admin.example.com",
	"http://admin.example.com", "//admin.example.com", "admin.example.com:80:80", "admin.example.com\xa0",
	"admin.example.com\x85q", `"admin.example.com"`, "<admin.example.com>", "admin_.example.com", "admin.example.com'",
	"admin.example.com&q", "admin.example.com=q", "admin.example.com!", "admin.example.com|q", "",
}

// hostRequests say in some way that they are for admin.example.com.
func hostRequests() []string {
	var list []string
	for _, host := range oddHosts {
		list = append(list, spelledTo(host, "GET", "/"), spelled("GET", "/", "X-Forwarded-Host: "+host),
			spelled("GET", "http://"+host+"/"))
	}
	for _, target := range []string{
		"http:///", "http:////", "http:/", "http:", "http://", "*", "//", "///", "http://?", "http:///?q",
	} {
		list = append(list, spelledTo("admin.example.com", "GET", target))
	}
	for _, name := range hostNames {
		list = append(list, spelled("GET", "/", name+": admin.example.com"))
	}
	return append(list, spelled("GET", "/", "Forwarded: host=admin.example.com"))
}

var hostNames = []string{
	"X-Forwarded-Host", "X_Forwarded_Host", "X-Forwarded_Host", "X.Forwarded.Host", "X-Host", "X-HTTP-Host-Override",
	"X-Forwarded-Server", "X-Original-Host", "HTTP_HOST", "Host ", "X-Forwarded-Host ", "HOST", "_HOST",
	"X-Rewrite-Host", "X-FORWARDED-HOST", "X\xadForwarded-Host",
}

// keyNames are names of a field that frameworks may take for X-API-Key.
var keyNames = []string{
	"X_API_Key", "X_API-Key", "X-API_Key", "x_api_key", "X-API-KEY", "x-api-key", "X.API.Key", "X-API.Key", "X API Key",
	"X-API-Key ", "X-API-Key\t", "X+API+Key", "X-API-\xcaey", "X-API-\xe2\x84\xaaey", "HTTP_X_API_KEY", "X~API~Key",
	"X-API-Key\x00", "X%2dAPI%2dKey", "X:API:Key", "X[API[Key", "X-API-Key[]", "X\x0bAPI-Key", "X'API'Key",
}

// generatedAttempts combine rewrites at random.
func generatedAttempts(seed uint64, n int) []attempt {
	random := rand.New(rand.NewPCG(seed, 0))
	honest := honestAttempts()
	list := make([]attempt, 0, n)
	for range n {
		a := honest[random.IntN(len(honest))]
		list = append(list, a.as(generated(random, a)))
	}
	return list
}

// generated is a request for what an attempt is for, after several rewrites.
func generated(random *rand.Rand, a attempt) string {
	method, path := a.target()
	target := path
	for range 1 + random.IntN(3) {
		target = rewritten(random, target)
	}
	host := anyHost
	var fields []string
	switch a.handler {
	case "admin":
		host = "admin.example.com"
		switch odd := choice(random, oddHosts...); random.IntN(4) {
		case 0:
			host = odd
		case 1:
			host, fields = choice(random, anyHost, "", "q"), []string{"X-Forwarded-Host: " + odd}
		case 2:
			host, fields = anyHost, []string{choice(random, hostNames...) + ": admin.example.com"}
		default:
			target = choice(random, "http://", "http:///", "https://", "http:/", `http:\\`, "//",
				"q://") + odd + target
		}
	case "keyed k":
		name := "X-API-Key"
		if random.IntN(2) == 0 {
			target, name = path, choice(random, keyNames...)
		}
		fields = []string{name + ": k"}
	default:
		if random.IntN(8) == 0 {
			host = choice(random, "", "q", "q,q", "APP.example.com", "q/..", "q?", "q#", `q\`, "u@q", "q:80",
				"static", "q"+path+"?")
		}
	}
	switch random.IntN(16) {
	case 0:
		method = strings.ToLower(method)
	case 1:
		method = method[:1] + strings.ToLower(method[1:])
	case 2:
		// HEAD runs what GET does; that of items is counted by its method.
		if method == "GET" && a.handler != "items 42" {
			method = "HEAD"
		}
	case 3:
		field := choice(random, "X-Original-URL", "X-Rewrite-URL", "X_Original_URL", "X-Forwarded-Uri",
			"X-Forwarded-Path", "X-Forwarded-Prefix", "X-Original-URI", "Path-Info", "PATH_INFO", "X-Script-Name",
			"Script_Name",
			"X-Forwarded-Script-Name")
		if random.IntN(2) == 0 {
			fields, target = append(fields, field+": "+target), "/"
		} else {
			fields = append(fields, field+": /static/q")
		}
	}
	return spelledTo(host, method, target, fields...)
}

// rewritten spells one part of a target in another way.
func rewritten(random *rand.Rand, target string) string {
	at := random.IntN(len(target))
	percent := "%" + strings.Repeat("25", random.IntN(3))
	switch random.IntN(10) {
	case 0: // one byte encoded
		return target[:at] + encoded(target[at:at+1], percent) + target[at+1:]
	case 1: // all that is left
		return target[:at] + encoded(target[at:], percent)
	case 2:
		return target[:at] + choice(random, lookalikes(target[at])...) + target[at+1:]
	case 3:
		return target[:at] + choice(random, spaces...) + target[at:]
	case 4:
		return target + choice(random, endings...)
	case 5: // slashes
		slash := choice(random, "//", `\`, "%2f", "%5c", "%252f", "/./", "/;q/", "/q/../", "/%2e/", "%2f%2f",
			"/%252e/", "/.;/")
		if before, after, ok := strings.Cut(target[at:], "/"); ok {
			return target[:at] + before + slash + after
		}
		return strings.Replace(target, "/", slash, 1)
	case 6: // dots
		return choice(random, "/q/..", "/q/%2e%2e", "/q/..;", "/q/..%2f", "/static/..", `/static\..`,
			"/static/..%5c..",
			"/bulk/..;q", "/q%2f..", "/q/%252e%252e", "/.", "/..", "/q/.%2e", "/q/.\t.", "/q.css/..") + target
	case 7: // parameters
		return target + choice(random, ";", ";q", ";q=q", ";q.css", "%3bq", "#", "#q", "%23q", "?", "?q",
			"%3f", "%3fq", ";/q/..", "/;q")
	case 8: // case
		return target[:at] + strings.ToUpper(target[at:])
	default: // what comes first
		return choice(random, "/index.php", "//q", "///q", `/\q`, `\\q`, "http://q", "http:///q", "http:/q",
			"//q:80", "//u@q",
			"http://static", "/index.php/q/..", "//static", "https:///q", "/%2f", "q:///q") + target
	}
}

func choice(random *rand.Rand, list ...string) string { return list[random.IntN(len(list))] }
