package accesslog

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/testkit"
)

const caddyLine = `{"level":"info","ts":1646861401.5241024,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"192.0.2.7","proto":"HTTP/2.0","method":"GET","host":"shop.example","uri":"/a%2Fb?q=1","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"],"X-Forwarded-For":["192.0.2.7","10.0.0.1"],"Authorization":["REDACTED"],"x-api-key":["k1"]},"tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"h2","server_name":"example.com"}},"bytes_read":0,"user_id":"ann","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"],"Content-Type":["text/html; charset=utf-8"]}}`

const istioLine = `{"authority":"shop.example","bytes_received":0,"bytes_sent":178,"connection_termination_details":null,"downstream_local_address":"10.44.1.23:80","downstream_remote_address":"192.0.2.7:37652","duration":3,"method":"GET","path":"/status/418","protocol":"HTTP/1.1","request_id":"84961386-6d84-929d-98bd-c5aee93b5c88","requested_server_name":null,"response_code":418,"response_code_details":"via_upstream","response_flags":"-","route_name":"default","start_time":"2020-11-25T21:26:18.409Z","upstream_cluster":"outbound|8000||httpbin","upstream_host":"10.44.1.27:80","upstream_service_time":"2","user_agent":"curl/7.64.0","x_forwarded_for":null}`

const gatewayLine = `{"start_time":"2020-11-25T21:26:18.409Z","method":"GET","x-envoy-origin-path":"/get","protocol":"HTTP/1.1","response_code":"200","bytes_sent":"3","x-forwarded-for":"192.0.2.9","user-agent":"curl/8","x-request-id":"r1",":authority":"shop.example","downstream_remote_address":"[2001:db8::9]:1"}`

const nginxLine = `{"time_local":"25/Nov/2020:21:26:18 +0000","remote_addr":"192.0.2.7","remote_user":"-","request":"GET /a%20b HTTP/1.1","status":"200","body_bytes_sent":"12","http_referer":"-","http_user_agent":"say \"hi\""}`

const traefikLine = `{"ClientAddr":"192.0.2.7:34882","ClientHost":"192.0.2.7","ClientPort":"34882","ClientUsername":"-","DownstreamContentSize":19,"DownstreamStatus":404,"Duration":53246,"OriginContentSize":0,"OriginDuration":0,"OriginStatus":0,"Overhead":53246,"RequestAddr":"shop.example:8443","RequestContentSize":0,"RequestCount":3,"RequestHost":"shop.example","RequestMethod":"GET","RequestPath":"/a?q=1","RequestPort":"8443","RequestProtocol":"HTTP/2.0","RequestScheme":"https","RetryAttempts":0,"StartLocal":"2020-11-25T22:26:18.409+01:00","StartUTC":"2020-11-25T21:26:18.409Z","entryPointName":"web","level":"info","msg":"","request_User-Agent":"curl/8","time":"2020-11-25T22:26:19+01:00"}`

const envoyTextLine = `[2020-11-25T21:26:18.409Z] "POST /api/v1/locations HTTP/2" 204 - 154 7 226 100 "198.51.100.4, 192.0.2.7" "say "hi"" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "shop.example" "tcp://10.0.2.1:80"`

const istioTextLine = `[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "-" "curl/7.73.0" "84961386-6d84-929d-98bd-c5aee93b5c88" "shop.example" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 192.0.2.7:37652 outbound_.8000_._.httpbin default`

var jsonTests = []struct{ name, format, mapping, line, at, want string }{
	{"Caddy", "caddy", "", caddyLine, "2022-03-09T21:30:01.5241024Z",
		`192.0.2.7 GET /a/b 200 10900 user="ann" host="shop.example" raw="/a%2Fb" User-Agent="curl/7.82.0" Accept="*/*" X-Forwarded-For="192.0.2.7" X-Forwarded-For="10.0.0.1" X-Api-Key="k1"`},
	{"Caddy of old, with a mapping over it", "caddy", "header:X-Api-Key=key,claim:plan=plan.name,user=sub",
		`{"ts":"1646861401","request":{"remote_ip":"192.0.2.7","method":"PUT","host":"h","uri":"/","headers":{"X-Api-Key":["other"],"Via":"x"}},"user_id":"ann","key":"k2","plan":{"name":["pro","free"]}}`, "2022-03-09T21:30:01Z",
		`192.0.2.7 PUT / 0 0 host="h" X-Api-Key="k2" Via="x" claim:plan="pro"`},
	{"Istio", "envoy", "", istioLine, "2020-11-25T21:26:18.409Z",
		`192.0.2.7 GET /status/418 418 178 host="shop.example" User-Agent="curl/7.64.0" X-Request-Id="84961386-6d84-929d-98bd-c5aee93b5c88"`},
	{"Envoy Gateway", "envoy", "", gatewayLine, "2020-11-25T21:26:18.409Z",
		`2001:db8::9 GET /get 200 3 host="shop.example" User-Agent="curl/8" X-Forwarded-For="192.0.2.9" X-Request-Id="r1"`},
	{"Envoy's text", "envoy", "", envoyTextLine, "2020-11-25T21:26:18.409Z",
		`192.0.2.7 POST /api/v1/locations 204 7 host="shop.example" X-Forwarded-For="198.51.100.4" User-Agent="say \"hi\"" X-Request-Id="cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2"`},
	{"Istio's text", "envoy", "", istioTextLine, "2020-11-25T21:26:18.409Z",
		`192.0.2.7 GET /status/418 418 135 host="shop.example" User-Agent="curl/7.73.0" X-Request-Id="84961386-6d84-929d-98bd-c5aee93b5c88"`},
	{"Traefik", "traefik", "", traefikLine, "2020-11-25T21:26:18.409Z", `192.0.2.7 GET /a 404 19 host="shop.example" User-Agent="curl/8"`},
	{"nginx with a request line", "json", "", nginxLine, "2020-11-25T21:26:18Z", `192.0.2.7 GET /a b 200 12 User-Agent="say \"hi\""`},
	{"names of one's own", "", `time=a.b,path=a.c,client=a\.b, header:x-key = k,header:x-key=l`,
		`{ "a": {"b": 1646861401524, "c": "/x"}, "a.b": "192.0.2.1", "k": "", "l": 17 }`, "2022-03-09T21:30:01.524Z",
		`192.0.2.1 - /x 0 0 X-Key="17"`},
	{"a value where an object was to be", "json", "claim:plan=account.plan",
		`{"time":"2020-11-25T21:26:18Z","path":"/","account":"none","status":[404],"bytes":{},"user":null}`, "2020-11-25T21:26:18Z",
		`- - / 404 0`},
	{"keys that differ in case", "json", "claim:a=sub,claim:b=Sub,claim:c=User",
		`{"time":"2020-11-25T21:26:18Z","path":"/","User":"U","user":"u","Sub":"S","sub":"s"}`, "2020-11-25T21:26:18Z",
		`- - / 0 0 user="u" claim:a="s" claim:b="S" claim:c="U"`},
	{"one of the keys that differ in case", "json", "claim:c=User",
		`{"time":"2020-11-25T21:26:18Z","path":"/","user":"u"}`, "2020-11-25T21:26:18Z",
		`- - / 0 0 user="u"`},
	{"escapes in a key and in values", "caddy", "",
		`{"ts":1,"request":{"uri":"/\u0061\n"},"request":{"uri":"/\u0061","headers":{ "X\u002dA" : [ "\u00e9\"]" , [], {"a":"]"} ] , "Via" : null }}}`, "1970-01-01T00:00:01Z",
		`- - /a 0 0 X-A="é\"]"`},
}

func TestJSONFormat(t *testing.T) {
	for _, test := range jsonTests {
		format := mustFormat(t, test.format, test.mapping)
		at := testkit.Must(time.Parse(time.RFC3339, test.at))(t)
		var r Record
		for range 2 { // nothing of a line is left for the next one
			if err := format.Parse([]byte(test.line), &r); err != nil {
				t.Errorf("%s: %v", test.name, err)
				break
			}
			if got := describe(&r); got != test.want || r.At != at.UnixNano() {
				t.Errorf("%s: got\n%s at %d, want\n%s", test.name, got, r.At, test.want)
			}
			if err := format.Parse([]byte(`{}`), &r); err == nil {
				t.Errorf("%s: an empty object has a time", test.name)
			}
		}
	}
}

func TestBrokenJSON(t *testing.T) {
	const noTimeAt = "accesslog: no valid time at ts"
	for _, test := range []struct{ line, want string }{
		{`[]`, "accesslog: the line is not a JSON object"},
		{`null`, "accesslog: the line is not a JSON object"},
		{`{"ts":1`, "accesslog: the line is not a JSON object"},
		{`{"ts":1} {}`, "accesslog: the line is not a JSON object"},
		{`{}`, noTimeAt},
		{`{"ts":null,"request":{"uri":"/"}}`, noTimeAt},
		{`{"ts":"yesterday","request":{"uri":"/"}}`, noTimeAt},
		{`{"ts":1,"request":{}}`, "accesslog: no path at request.uri"},
		{`{"ts":1,"request":"GET / HTTP/1.1"}`, "accesslog: no path at request.uri"},
		{`{"ts":1,"request":{"uri":"%"}}`, "accesslog: the target of the request is not a valid URL"},
		{`{"ts":1,"request":{"uri":"/","remote_ip":"a example"}}`, "accesslog: the client is neither an IP address nor a host name"},
	} {
		var r Record
		err := mustFormat(t, "caddy", "").Parse([]byte(test.line), &r)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.line, err, test.want)
		}
	}
}

func mustFormat(t testing.TB, name, mapping string) Format {
	t.Helper()
	m := testkit.Must(ParseMapping(mapping))(t)
	format := testkit.Must(NewFormat(name, m))(t)
	return format
}
