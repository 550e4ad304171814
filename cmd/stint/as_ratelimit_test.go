package main

import (
	"bytes"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/server"
)

// ratelimitConfig returns the configuration of stint serve --as-ratelimit with the given
// environment and more flags, and the log.
func ratelimitConfig(t *testing.T, env map[string]string, flags ...string) (server.Config, string, error) {
	t.Helper()
	var c serveCommand
	parser := testkit.Must(kong.New(&c, helpVariables()))(t)
	k := testkit.Must(parser.Parse(append([]string{"--as-ratelimit"}, flags...)))(t)
	var log bytes.Buffer
	s := &system{Stderr: &log}
	config, err := c.server(s, &asRatelimit{getenv: func(name string) string { return env[name] },
		given: func(flag string) bool { return isGiven(k.Path, flag) }})
	if s.logs != nil {
		s.logs.Flush(flushTime)
	}
	return config, log.String(), err
}

// withRedis returns env with a value for REDIS_URL, unless env has one.
func withRedis(env map[string]string) map[string]string {
	all := map[string]string{"REDIS_URL": "redis:6379"}
	maps.Copy(all, env)
	return all
}

// get returns the field of a configuration at a path such as "Envoy.Window".
func get(c server.Config, path string) any {
	v := reflect.ValueOf(c)
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		v = v.FieldByName(name)
	}
	return v.Interface()
}

// xdsEnv returns an environment in which rules come from an xDS server, with one more variable.
func xdsEnv(name, value string) string { return "CONFIG_TYPE=GRPC_XDS_SOTW " + name + "=" + value }

// ab is the parsed form of the lists of pairs below. encrypted turns on TLS, without which files
// for TLS have no effect.
var (
	ab        = map[string]string{"a": "1", "b": "2"}
	encrypted = "CONFIG_GRPC_XDS_SERVER_USE_TLS=true "
)

// ratelimitRows lists the variables of envoyproxy/ratelimit and the fields that they set, as in the
// table in docs/migrating.md, each with a flag that takes precedence over the variable.
var ratelimitRows = []struct {
	env   string // NAME=VALUE pairs; the variable of the row is the last
	field string // "" if the variable changes nothing
	want  any
	flag  string
}{
	{"HOST=127.0.0.1", "HTTP", "127.0.0.1:8080", "--http=:1"},
	{"PORT=9", "HTTP", ":9", "--http=:1"},
	{"GRPC_HOST=127.0.0.1", "GRPC", "127.0.0.1:8081", "--grpc=:1"},
	{"GRPC_PORT=9", "GRPC", ":9", "--grpc=:1"},
	{"DEBUG_HOST=localhost", "Admin", "127.0.0.1:6070", "--admin=127.0.0.1:1"},
	{"DEBUG_HOST=127.0.0.2", "Admin", "127.0.0.2:6070", "--admin=127.0.0.1:1"},
	{"DEBUG_HOST=::1", "Admin", "[::1]:6070", "--admin=127.0.0.1:1"},
	{"DEBUG_PORT=9", "Admin", "127.0.0.1:9", "--admin=127.0.0.1:1"},
	{"GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k GRPC_SERVER_USE_TLS=true", "TLSOnlyGRPC", true, "--tls-cert=f"},
	{"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_KEY=k GRPC_SERVER_TLS_CERT=c", "TLSCert", "c", "--tls-cert=f"},
	{"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k", "TLSKey", "k", "--tls-key=f"},
	{"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k GRPC_CLIENT_TLS_CACERT=ca", "ClientCA", "ca", "--tls-client-ca=f"},
	{"GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k", "TLSCert", "", ""},
	{"CONFIG_TYPE=FILE", "Envoy.Rules", "/srv/runtime_data/current/config", "--envoy-config=f"},
	{"RUNTIME_ROOT=/data", "Envoy.Rules", "/data/config", "--envoy-config=f"},
	{"RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit", "Envoy.Rules", "/data/ratelimit/config", "--envoy-config=f"},
	{"RUNTIME_ROOT=/data RUNTIME_APPDIRECTORY=rules", "Envoy.Rules", "/data/rules", "--envoy-config=f"},
	{"CONFIG_TYPE=GRPC_XDS_SOTW", "Envoy.XDS.Server", "localhost:18000", ""},
	{"CONFIG_TYPE=GRPC_XDS_SOTW", "Envoy.XDS.NodeID", "default", ""},
	{xdsEnv("CONFIG_GRPC_XDS_SERVER_URL", "envoy-gateway:18001"), "Envoy.XDS.Server", "envoy-gateway:18001", ""},
	{xdsEnv("CONFIG_GRPC_XDS_NODE_ID", "n"), "Envoy.XDS.NodeID", "n", ""},
	{xdsEnv("CONFIG_GRPC_XDS_NODE_METADATA", "a=1,b=2"), "Envoy.XDS.NodeMetadata", ab, ""},
	{xdsEnv("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "a:1,b:2"), "Envoy.XDS.Headers", ab, ""},
	{xdsEnv("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"), "Envoy.XDS.TLS", true, ""},
	{encrypted + xdsEnv("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "f"), "Envoy.XDS.CA", "f", ""},
	{encrypted + xdsEnv("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "f"), "Envoy.XDS.Cert", "f", ""},
	{encrypted + xdsEnv("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "f"), "Envoy.XDS.Key", "f", ""},
	{encrypted + xdsEnv("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "n"), "Envoy.XDS.ServerName", "n", ""},
	{xdsEnv("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "9"), "Envoy.XDS.MaxMessage", 9, ""},
	{xdsEnv("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"), "Envoy.XDS.Healthy", true, ""},
	{"FORCE_START_WITHOUT_INITIAL_CONFIG=true " + xdsEnv("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true"),
		"Envoy.XDS.Healthy", false, ""},
	{"MERGE_DOMAIN_CONFIG=true", "Envoy.MergeDomains", true, ""},
	{"REDIS_URL=other:1", "Store", "redis://other:1", "--store=memory"},
	{"REDIS_URL=/run/redis.sock", "Store", "unix:///run/redis.sock", "--store=memory"},
	{"REDIS_URL=redis://other:1/2", "Store", "redis://other:1/2", "--store=memory"},
	{"REDIS_AUTH=p@ss", "Store", "redis://:p%40ss@redis:6379", "--store=memory"},
	{"REDIS_AUTH=me:pass", "Store", "redis://me:pass@redis:6379", "--store=memory"},
	{"REDIS_TLS=true", "Store", "rediss://redis:6379", "--store=memory"},
	{"REDIS_TLS=true REDIS_TLS_CACERT=f", "Store", "rediss://redis:6379?ca_file=f", "--store=memory"},
	{"REDIS_TLS=true REDIS_TLS_CLIENT_KEY=k REDIS_TLS_CLIENT_CERT=c", "Store", "rediss://redis:6379?cert_file=c&key_file=k", "--store=memory"},
	{"REDIS_TLS=true REDIS_TLS_CLIENT_CERT=c REDIS_TLS_CLIENT_KEY=k", "Store", "rediss://redis:6379?cert_file=c&key_file=k", "--store=memory"},
	{"CACHE_KEY_PREFIX=eg:rl:", "StorePrefix", "eg:rl:", ""},
	{"REDIS_URL=a:1,b:2 REDIS_TYPE=CLUSTER", "Store", "redis://a:1?addr=b%3A2", "--store=memory"},
	{"REDIS_URL=main,a:1,b:2 REDIS_TYPE=sentinel", "Store", "redis://a:1?addr=b%3A2&master_set=main", "--store=memory"},
	{"NEAR_LIMIT_RATIO=0.5", "Envoy.NearLimit", 0.5, ""},
	{"NEAR_LIMIT_RATIO=0", "Envoy.NearLimit", math.SmallestNonzeroFloat64, ""},
	{"LIMIT_RESPONSE_HEADERS_ENABLED=true", "Envoy.Headers", server.EnvoyHeadersUpstream, "--envoy-headers=all"},
	{"LIMIT_RESPONSE_HEADERS_ENABLED=false", "Envoy.Headers", server.EnvoyHeadersNone, "--envoy-headers=all"},
	{"LIMIT_LIMIT_HEADER=X-A", "Envoy.HeaderLimit", "X-A", "--envoy-header-limit=X-F"},
	{"LIMIT_REMAINING_HEADER=X-A", "Envoy.HeaderRemaining", "X-A", "--envoy-header-remaining=X-F"},
	{"LIMIT_RESET_HEADER=X-A", "Envoy.HeaderReset", "X-A", "--envoy-header-reset=X-F"},
	{"SHADOW_MODE=true", "Envoy.ShadowMode", true, ""},
	{"QUOTA_MODE=true", "Envoy.QuotaMode", true, ""},
	{"RESPONSE_DYNAMIC_METADATA=true", "Envoy.Metadata", true, ""},
	{"USE_CALENDAR_MONTH_RATE_LIMIT=true", "Envoy.Window", server.EnvoyCalendar, "--envoy-window=sliding"},
	{"USE_CALENDAR_MONTH_RATE_LIMIT=false", "Envoy.Window", server.EnvoyFixed, "--envoy-window=sliding"},
	{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true", "Envoy.StopOverLimit", true, ""},
	{"USE_PROMETHEUS=true", "Metrics", ":9090", "--metrics=:1"},
	{"USE_PROMETHEUS=true", "Envoy.Stats", true, "--no-envoy-metrics"},
	{"USE_PROMETHEUS=true PROMETHEUS_ADDR=:19001", "Metrics", ":19001", "--metrics=:1"},
	{"LOG_LEVEL=trace", "", nil, ""},
	{"LOG_FORMAT=json", "", nil, ""},
}

// environment parses "NAME=VALUE NAME=VALUE". It also returns the last name.
func environment(text string) (env map[string]string, last string) {
	env = map[string]string{}
	for pair := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(pair, "=")
		env[name], last = value, name
	}
	return withRedis(env), last
}

// TestRatelimitEnvironment checks that each variable sets the field in its row, and that flags take
// precedence over variables.
func TestRatelimitEnvironment(t *testing.T) {
	base, log, err := ratelimitConfig(t, withRedis(nil))
	if err != nil || strings.Contains(log, "WARN") {
		t.Fatalf("only REDIS_URL: %v, %s", err, log)
	}
	for field, want := range map[string]any{
		"HTTP": ":8080", "GRPC": ":8081", "Admin": "127.0.0.1:6070", "Metrics": "", "AdminTokens": "",
		"Envoy.Window": server.EnvoyFixed, "Envoy.Headers": server.EnvoyHeadersNone, "Envoy.Stats": false,
		"TLSOnlyGRPC": false,
	} {
		if got := get(base, field); got != want {
			t.Errorf("%s is %v by default, want %v", field, got, want)
		}
	}
	for _, row := range ratelimitRows {
		env, _ := environment(row.env)
		c, log, err := ratelimitConfig(t, env)
		if err != nil || strings.Contains(log, "unsupported setting") {
			t.Errorf("%s: %v, %s", row.env, err, log)
			continue
		}
		if row.field == "" {
			continue
		}
		if got := get(c, row.field); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %s is %v, want %v", row.env, row.field, got, row.want)
		}
		if row.flag == "" {
			continue
		}
		c, _, err = ratelimitConfig(t, env, row.flag)
		if err != nil || reflect.DeepEqual(get(c, row.field), row.want) {
			t.Errorf("%s with %s: %s is %v, %v; want what the flag says", row.env, row.flag, row.field, get(c, row.field), err)
		}
	}
	blank := withRedis(map[string]string{"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_NODE_METADATA": "a=1, b=2, ",
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": " "})
	c, _, err := ratelimitConfig(t, blank)
	if err != nil || !reflect.DeepEqual(c.Envoy.XDS.NodeMetadata, ab) || len(c.Envoy.XDS.Headers) != 0 {
		t.Errorf("pairs with blank entries: %+v, %v", c.Envoy.XDS, err)
	}
	env, _ := environment("GRPC_SERVER_USE_TLS=true GRPC_CLIENT_TLS_CACERT=ca")
	c, _, err = ratelimitConfig(t, env, "--tls-cert=f", "--tls-key=f")
	if err != nil || c.ClientCA != "ca" {
		t.Errorf("with --tls-cert and --tls-key, the CA of clients is %q, %v; want ca", c.ClientCA, err)
	}
}

// TestRatelimitLogging checks that the environment sets the level and the format of the log.
func TestRatelimitLogging(t *testing.T) {
	env := withRedis(map[string]string{"LOG_FORMAT": "JSON", "LOG_LEVEL": "WARNING", "EXTRA_TAGS": "a:b"})
	_, log, err := ratelimitConfig(t, env)
	if err != nil || !strings.HasPrefix(log, `{"time":`) || strings.Count(log, "\n") != 1 {
		t.Errorf("got %v, %s; want one warning in JSON", err, log)
	}
}

// TestRatelimitWarnings checks that a warning about an ignored variable is logged, with the effect
// of ignoring it.
func TestRatelimitWarnings(t *testing.T) {
	for name, of := range ratelimitWarnings {
		_, log, err := ratelimitConfig(t, effective(name, "true"))
		if err != nil || !strings.Contains(log, "level=WARN") ||
			!strings.Contains(log, name+" is ignored: "+of.change) {
			t.Errorf("%s: %v, %s; want a warning", name, err, log)
		}
		_, log, err = ratelimitConfig(t, effective(name, of.fine))
		if err != nil || strings.Contains(log, "WARN") {
			t.Errorf("%s=%s: %v, %s", name, of.fine, err, log)
		}
	}
	// A variable without effect is neither refused nor warned about.
	for name, needs := range ratelimitNeeds {
		env := withRedis(map[string]string{name: "true"})
		if needs.byDefault {
			env[needs.name] = "false"
		}
		if _, log, err := ratelimitConfig(t, env); err != nil || strings.Contains(log, "WARN") {
			t.Errorf("%s without %s: %v, %s", name, needs.name, err, log)
		}
	}
	env := withRedis(map[string]string{"DEBUG_HOST": "0.0.0.0"})
	c, log, err := ratelimitConfig(t, env)
	if err != nil || c.Admin != "127.0.0.1:6070" || !strings.Contains(log, "DEBUG_HOST is ignored") {
		t.Errorf("DEBUG_HOST: %s, %v, %s", c.Admin, err, log)
	}
	tokens := testkit.TempFile(t, "tokens", "alice: 0123456789abcdef0123456789abcdef\n")
	c, _, err = ratelimitConfig(t, env, "--admin-token-file="+tokens)
	if err != nil || c.Admin != "0.0.0.0:6070" || c.AdminTokens != tokens {
		t.Errorf("DEBUG_HOST with tokens: %s, %v", c.Admin, err)
	}
}

// effective returns an environment in which the variable name has an effect.
func effective(name, value string) map[string]string {
	env := map[string]string{name: value}
	if needs, ok := ratelimitNeeds[name]; ok && !needs.byDefault {
		env[needs.name] = needs.value
	}
	return withRedis(env)
}

// TestRatelimitRefused checks that stint does not start with variables that it must not ignore. It
// reports all of them together, without passwords.
func TestRatelimitRefused(t *testing.T) {
	for name, of := range ratelimitRefused {
		_, _, err := ratelimitConfig(t, effective(name, "true"))
		if err == nil || !strings.Contains(err.Error(), name+": "+of.want) {
			t.Errorf("%s: %v; want %s", name, err, of.want)
		}
		if _, _, err := ratelimitConfig(t, withRedis(map[string]string{name: strings.ToUpper(of.fine)})); err != nil {
			t.Errorf("%s=%q: %v", name, of.fine, err)
		}
	}
	for text, want := range map[string]string{
		"PORT=99999":                                    `PORT: "99999"; want a port up to 65535`,
		"GRPC_SERVER_USE_TLS=true":                      "want GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY, too",
		"GRPC_SERVER_USE_TLS=yes":                       `GRPC_SERVER_USE_TLS: "yes"; want true or false`,
		"CONFIG_TYPE=XDS":                               `CONFIG_TYPE: "XDS"; want FILE or GRPC_XDS_SOTW`,
		"REDIS_TYPE=ring":                               `REDIS_TYPE: "ring"; want single, cluster or sentinel`,
		"REDIS_URL=a:1,b:2":                             "several addresses; want one, or REDIS_TYPE=cluster or sentinel",
		"REDIS_URL=a:1 REDIS_TYPE=Sentinel":             "want the name of the master and the addresses of Sentinels",
		"REDIS_URL=%zz:secret@":                         "REDIS_URL: want host:port or a URL",
		"NEAR_LIMIT_RATIO=2":                            `NEAR_LIMIT_RATIO: "2"; want a share from 0 to 1`,
		"LIMIT_LIMIT_HEADER=a/b":                        `LIMIT_LIMIT_HEADER: invalid header name "a/b"`,
		"LOG_LEVEL=loud":                                `LOG_LEVEL: unknown level "loud"`,
		"LOG_FORMAT=xml":                                `LOG_FORMAT: "xml"; want text or json`,
		"REDIS_TLS=true REDIS_TLS_CLIENT_CERT=c":        "REDIS_TLS_CLIENT_CERT needs REDIS_TLS_CLIENT_KEY",
		xdsEnv("CONFIG_GRPC_XDS_NODE_METADATA", "a"):    `CONFIG_GRPC_XDS_NODE_METADATA: "a"; want a name and a value`,
		xdsEnv("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "x"): `XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: "x"; want a number of bytes`,
		"GRPC_UDS=/run/a.sock BACKEND_TYPE=memcache":    "GRPC_UDS: ",
	} {
		env, _ := environment(text)
		_, _, err := ratelimitConfig(t, env)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
	if _, _, err := ratelimitConfig(t, nil); err == nil || !strings.Contains(err.Error(), "REDIS_URL: not set; want host:port of a Redis server") {
		t.Errorf("without REDIS_URL: %v", err)
	}
	if c, _, err := ratelimitConfig(t, nil, "--store=memory"); err != nil || c.Store != "memory" {
		t.Errorf("--store memory: %q, %v", c.Store, err)
	}
}

// TestRatelimitTable checks that the table in docs/migrating.md has the variables that are read,
// warned about and refused. All other variables in the table must cause no warning.
func TestRatelimitTable(t *testing.T) {
	_, section, _ := strings.Cut(testkit.ReadFile(t, "../../docs/migrating.md"), "\n## envoyproxy/ratelimit\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	known := []string{"MEMCACHE", "TRACING", "OTEL_EXPORTER_OTLP"} // names that the table shortens
	variable := regexp.MustCompile(`[A-Z][A-Z_]+[A-Z]`)
	for line := range strings.Lines(section) {
		cell, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		cell, effect, _ := strings.Cut(cell, " | ")
		for _, name := range variable.FindAllString(cell, -1) {
			documented[name] = true
			if !strings.HasPrefix(effect, "not needed") {
				continue
			}
			known = append(known, name)
			_, log, err := ratelimitConfig(t, withRedis(map[string]string{name: "7"}))
			if err != nil || strings.Contains(log, "WARN") {
				t.Errorf("%s: %v, %s; want silence", name, err, log)
			}
		}
	}
	for _, row := range ratelimitRows {
		_, name := environment(row.env)
		known = append(known, name)
	}
	known = slices.Concat(known, slices.Collect(maps.Keys(ratelimitWarnings)), slices.Collect(maps.Keys(ratelimitRefused)))
	for _, name := range known {
		if !documented[name] {
			t.Errorf("docs/migrating.md does not have %s", name)
		}
	}
	for name := range documented {
		if !slices.Contains(known, name) {
			t.Errorf("docs/migrating.md has %s, which has no test", name)
		}
	}
}
