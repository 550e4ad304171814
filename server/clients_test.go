package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// What the clients of TestGeneratedClients are made with, and the page that says how.
const (
	clientTools  = "../tools/openapi"
	apiReference = "../docs/api.md"
	clientToken  = "token-of-generated-clients"
)

// Clients in Go and TypeScript that are generated from the document, with the commands of
// docs/api.md, make every call of it.
func TestGeneratedClients(t *testing.T) {
	if testing.Short() {
		t.Skip("builds oapi-codegen, and needs what make setup installs")
	}
	page := testkit.ReadFile(t, apiReference)
	policies := find(t, page, "(?s)```yaml\n(.*?)```")
	r := start(t, waitConfig(t, "", policies))
	down := start(t, Config{Policies: testkit.TempFile(t, "deny.yaml", "failure: {mode: deny}\n"+policies), HTTP: anywhere,
		Store: "redis://127.0.0.1:1", APIPublic: true})
	seen := newCalls(t, r.url(HTTP, ""))
	seenDown := newCalls(t, down.url(HTTP, ""))

	status, document := r.get(HTTP, "/openapi.json", "")
	if status != http.StatusOK {
		t.Fatalf("GET /openapi.json: %d", status)
	}
	tools := testkit.Must(filepath.Abs(clientTools))(t)
	environment := append(os.Environ(), "STINT_URL="+seen.url, "STINT_DOWN_URL="+seenDown.url,
		"STINT_TOKEN="+clientToken)
	for _, client := range []struct {
		agent string
		files []string // of the tools, which the client needs
		from  string   // what the page calls the generator
		tool  string   // how to run the pinned one
		run   []string
	}{
		{"calls.go", []string{"go.mod", "go.sum", "testdata/calls.go"},
			`go run github.com/oapi-codegen/oapi-codegen/\S+`, "go tool -modfile=" + tools + "/go.mod oapi-codegen",
			[]string{"go run ."}},
		{"calls.ts", []string{"package.json", "testdata/calls.ts"},
			`npx openapi-typescript\S+`, tools + "/node_modules/.bin/openapi-typescript",
			[]string{tools + "/node_modules/.bin/tsc --strict --skipLibCheck --target es2022 --module nodenext calls.ts", "node calls.js"}},
	} {
		t.Run(client.agent, func(t *testing.T) {
			directory := t.TempDir()
			testkit.WriteFile(t, filepath.Join(directory, "openapi.json"), document)
			for _, file := range client.files {
				testkit.WriteFile(t, filepath.Join(directory, filepath.Base(file)), testkit.ReadFile(t, filepath.Join(tools, file)))
			}
			if err := errors.Join(os.Symlink(filepath.Join(tools, "node_modules"), filepath.Join(directory, "node_modules")),
				os.Mkdir(filepath.Join(directory, "stint"), 0o755)); err != nil {
				t.Fatal(err)
			}
			generate := client.tool + find(t, page, "(?m)^"+client.from+"( .*)$")
			for _, command := range append([]string{generate}, client.run...) {
				c := exec.Command("sh", "-c", command)
				c.Dir, c.Env = directory, environment
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", command, err, out)
				}
			}
			seen.check(t, client.agent, document, seenDown)
		})
	}
}

// The document passes Redocly's recommended rules, without a warning.
func TestDocumentIsLinted(t *testing.T) {
	if testing.Short() {
		t.Skip("needs what make setup installs")
	}
	out, err := exec.Command("node", clientTools+"/lint.mjs", "../internal/server/api/openapi.json").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// calls are what clients have asked a server, and been answered.
type calls struct {
	url string

	mu   sync.Mutex
	seen map[string]map[string]bool // by agent: "take 200"
}

// newCalls returns a server that passes calls on to another.
func newCalls(t *testing.T, to string) *calls {
	t.Helper()
	target := testkit.Must(url.Parse(to))(t)
	c := &calls{seen: map[string]map[string]bool{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		agent := r.Request.UserAgent()
		if c.seen[agent] == nil {
			c.seen[agent] = map[string]bool{}
		}
		c.seen[agent][fmt.Sprint(r.Request.URL.Path, " ", r.StatusCode)] = true
		return nil
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// check fails if an agent has not made all calls of a document: each with a good answer, and every
// other status that a client can cause at least once.
func (c *calls) check(t *testing.T, agent, document string, other *calls) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]any
		}
	}
	if err := json.Unmarshal([]byte(document), &doc); err != nil {
		t.Fatal(err)
	}
	got := slices.Concat(slices.Collect(maps.Keys(c.seen[agent])), slices.Collect(maps.Keys(other.seen[agent])))
	for path, methods := range doc.Paths {
		for _, operation := range methods {
			if !slices.Contains(got, path+" 200") {
				t.Errorf("%s does not call %s", agent, path)
			}
			for status := range operation.Responses {
				// Generated clients know the method and the type.
				if status != "405" && status != "415" &&
					!slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, " "+status) }) {
					t.Errorf("%s was never answered with %s", agent, status)
				}
			}
		}
	}
}

func find(t *testing.T, text, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no %s", apiReference, pattern)
	}
	return found[1]
}
