package control

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/overrides"
)

// Client does what an [Admin] does, but through a server's admin listener. It also reads the
// server's state and the events that the server has observed. It is safe for concurrent use.
//
// Its errors are an [*UnreachableError], or a [*RefusedError] that contains the server's answer.
type Client struct {
	base  *url.URL
	shown string // base without secrets, for errors
	token string
	http  http.Client
}

// callTimeout is the timeout of every call except [Client.Stream] and [Client.ExportOverrides]. A
// server may need 20 s to scan all bans.
const callTimeout = 25 * time.Second

// maxAnswer is the maximum size in bytes of an answer with status 200, except for [Client.Stream]
// and [Client.ExportOverrides]. maxProblem is the maximum size of an answer with any other status.
const (
	maxAnswer  = 64 << 20
	maxProblem = 1 << 20
)

// NewClient returns a client of the admin listener at the URL base, such as http://127.0.0.1:6070.
// token may be "".
func NewClient(base, token string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		if strings.Contains(base, "@") { // a password may precede the @
			base = label.URL(base)
		}
		return nil, fmt.Errorf("control: %q is not the address of a server; want a URL such as http://127.0.0.1:6070",
			base)
	}
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("control: the token has invalid characters; want printable ASCII without spaces")
	}
	c := &Client{base: u, shown: label.URL(base), token: token}
	// Do not follow redirects. They could send the token to another server, or turn a POST into a
	// GET.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// UseTLS sets the TLS configuration for https URLs.
func (c *Client) UseTLS(config *tls.Config) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = config
	c.http.Transport = t
}

// ErrSpeaksTLS is the cause of an [UnreachableError] if the server speaks TLS, but the address is
// an http URL.
var ErrSpeaksTLS = errors.New("the server speaks TLS, but the address is an http URL")

// UnreachableError means that a server did not answer, or gave an unusable answer.
type UnreachableError struct {
	Server string
	Err    error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no answer from %s: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// RefusedError reports an answer with a status other than 200.
type RefusedError struct {
	Status int
	// Code is the error code in the answer, such as [CodeNotFound], or "" if there is none.
	Code string
	// Message is the server's explanation, or "" if there is none.
	Message string
}

// CodeNotFound is the code in an answer about an unknown path. A Client receives it if its URL
// names a listener other than the admin listener.
const CodeNotFound = "not_found"

func (e *RefusedError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the server answers %d %s", e.Status, http.StatusText(e.Status))
	}
	return e.Message
}

// RefPrefix is the prefix of a ref, such as "ref:x1y2", which a server shows instead of a subject.
const RefPrefix = "ref:"

// TargetOf converts text to a target. If text begins with [RefPrefix], the target is a ref, unless
// raw is true.
func TargetOf(text string, raw bool) Target {
	if ref, ok := strings.CutPrefix(text, RefPrefix); ok && !raw {
		return Target{Ref: ref}
	}
	return Target{Subject: text, Raw: raw}
}

// Subject returns the ban, the overrides and the usage of a subject.
func (c *Client) Subject(ctx context.Context, t Target) (Subject, error) {
	return get[Subject](ctx, c, "/api/subject", t.query())
}

func (t Target) query() url.Values {
	query := url.Values{}
	for key, value := range map[string]string{"subject": t.Subject, "ref": t.Ref} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if t.Raw {
		query.Set("raw", "true")
	}
	return query
}

// Bans lists at most n bans in force, starting with the ban that lasts longest.
func (c *Client) Bans(ctx context.Context, n int) ([]Ban, error) {
	result, err := get[struct{ Bans []Ban }](ctx, c, "/api/bans", url.Values{"n": {strconv.Itoa(n)}})
	return result.Bans, err
}

// Processes lists the processes whose events are included in the results of Top, Violations, Why
// and Denials. The list is empty if the server does not share its events with other processes.
func (c *Client) Processes(ctx context.Context) ([]observe.Process, error) {
	result, err := get[struct{ Processes []observe.Process }](ctx, c, "/api/processes", nil)
	return result.Processes, err
}

// Top lists at most n subjects of the given kind, such as "ip": those that were denied most often
// in the last few minutes. If kind is "policy", it lists policies instead.
func (c *Client) Top(ctx context.Context, kind string, n int) ([]observe.Offender, error) {
	result, err := get[struct{ Top []observe.Offender }](ctx, c, "/api/top",
		url.Values{"by": {kind}, "n": {strconv.Itoa(n)}})
	return result.Top, err
}

// Violations lists the last n denials, oldest first.
func (c *Client) Violations(ctx context.Context, n int) ([]observe.Violation, error) {
	result, err := get[struct{ Violations []observe.Violation }](ctx, c, "/api/violations",
		url.Values{"n": {strconv.Itoa(n)}})
	return result.Violations, err
}

// Why explains the denial with the given id. See [observe.Monitor.Why].
func (c *Client) Why(ctx context.Context, id string) ([]observe.Denial, error) {
	result, err := get[struct{ Denials []observe.Denial }](ctx, c, "/api/why", url.Values{"id": {id}})
	return result.Denials, err
}

// Denials lists the denials of a subject or a ref. If at is not zero, it lists only the denials
// around that time. See [observe.Monitor.Denials].
func (c *Client) Denials(ctx context.Context, subject string, at time.Time) ([]observe.Denial, error) {
	query := TargetOf(subject, false).query()
	if !at.IsZero() {
		query.Set("at", at.Format(time.RFC3339))
	}
	result, err := get[struct{ Denials []observe.Denial }](ctx, c, "/api/why", query)
	return result.Denials, err
}

// State is the state of a server.
type State struct {
	Version string              `json:"version"`
	Alerts  []observe.Alert     `json:"alerts"`
	Store   observe.StoreHealth `json:"store"`
	Config  ConfigState         `json:"config"`
}

// ConfigState is the state of the configuration. The Error of a source explains why its current
// files are not in force.
type ConfigState struct {
	Phase   string        `json:"phase"`
	Sources []SourceState `json:"sources"`
}

// SourceState is the state of a source of configuration, such as a file.
type SourceState struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Error string `json:"error"`
}

// State returns the state of the server.
func (c *Client) State(ctx context.Context) (State, error) {
	return get[State](ctx, c, "/api/state", nil)
}

// Ready returns nil if the server accepts requests.
func (c *Client) Ready(ctx context.Context) error {
	r, err := c.request(ctx, http.MethodGet, "/readyz", nil, nil)
	if err != nil {
		return err
	}
	return c.call(r, nil)
}

// Reset clears what a subject has used.
func (c *Client) Reset(ctx context.Context, t Target) (Named, error) {
	return post[Named](ctx, c, "/api/reset", t)
}

// Ban bans a subject for the given time.
func (c *Client) Ban(ctx context.Context, t Target, length time.Duration) (Named, error) {
	return post[Named](ctx, c, "/api/ban", struct {
		Target
		For string `json:"for"`
	}{t, length.String()})
}

// Unban ends a subject's ban.
func (c *Client) Unban(ctx context.Context, t Target) (Named, error) {
	return post[Named](ctx, c, "/api/unban", t)
}

// Take decides a request, as [Admin.Take] does.
func (c *Client) Take(ctx context.Context, a TakeRequest) (TakeResult, error) {
	return post[TakeResult](ctx, c, "/api/take", a)
}

const overridesPath = "/api/limits"

// Overrides lists at most n overrides whose subjects begin with prefix.
func (c *Client) Overrides(ctx context.Context, prefix string, n int) (OverrideList, error) {
	return get[OverrideList](ctx, c, overridesPath, url.Values{"prefix": {prefix}, "n": {strconv.Itoa(n)}})
}

// SetRequest is a request to set an override.
type SetRequest struct {
	Target
	Policy string        `json:"policy"`
	Limits []stint.Limit `json:"limits"`
	Lower  bool          `json:"lower,omitempty"`
	Until  time.Time     `json:"until,omitzero"`
	Why    string        `json:"why,omitempty"`
}

// SetOverride sets an override.
func (c *Client) SetOverride(ctx context.Context, a SetRequest) (Named, error) {
	return post[Named](ctx, c, overridesPath+"/set", a)
}

// UnsetRequest is a request to remove an override.
type UnsetRequest struct {
	Target
	Policy string `json:"policy"`
}

// UnsetOverride removes an override.
func (c *Client) UnsetOverride(ctx context.Context, a UnsetRequest) (Named, error) {
	return post[Named](ctx, c, overridesPath+"/unset", a)
}

// ExportOverrides calls f with every override, as a line of JSON.
func (c *Client) ExportOverrides(ctx context.Context, f func(line []byte) error) error {
	r, err := c.request(ctx, http.MethodGet, overridesPath+"/export", nil, nil)
	if err != nil {
		return err
	}
	got, err := c.do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	lines := bufio.NewScanner(got.Body)
	for lines.Scan() {
		if err := f(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return &UnreachableError{c.shown, err}
	}
	return nil
}

// ImportOverrides sets exported overrides. It accepts at most [MaxImport] of them in one call.
func (c *Client) ImportOverrides(ctx context.Context, all []overrides.Override) error {
	_, err := post[struct{}](ctx, c, overridesPath+"/import", ImportRequest{all})
	return err
}

// ImportRequest is a request to set several exported overrides.
type ImportRequest struct {
	Overrides []overrides.Override `json:"overrides"`
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (result T, err error) {
	r, err := c.request(ctx, http.MethodGet, path, query, nil)
	if err == nil {
		err = c.call(r, &result)
	}
	return result, err
}

func post[T any](ctx context.Context, c *Client, path string, body any) (result T, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return result, err
	}
	r, err := c.request(ctx, http.MethodPost, path, nil, bytes.NewReader(text))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
		err = c.call(r, &result)
	}
	return result, err
}

func (c *Client) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (
	*http.Request, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err == nil && c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, err
}

// call sends a request, and stores the decoded answer in the value that into points to. If into is
// nil, call ignores the answer.
func (c *Client) call(r *http.Request, into any) error {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	got, err := c.do(r.WithContext(ctx))
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(got.Body, maxAnswer)).Decode(into); err != nil {
		return &UnreachableError{c.shown, fmt.Errorf("its answer to %s is malformed; is it another version of stint? %w",
			r.URL.Path, err)}
	}
	return nil
}

// do sends a request. It returns an error unless the status of the answer is 200.
func (c *Client) do(r *http.Request) (*http.Response, error) {
	got, err := c.http.Do(r)
	if err != nil {
		if call, ok := errors.AsType[*url.Error](err); ok {
			err = call.Err // without the method and the URL
		}
		return nil, &UnreachableError{c.shown, err}
	}
	if got.StatusCode == http.StatusOK {
		return got, nil
	}
	defer got.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(got.Body, maxProblem)) // ignore the error: the status is enough
	var problem answer.Problem
	if json.Unmarshal(text, &problem) != nil && got.StatusCode == http.StatusBadRequest &&
		(bytes.Contains(text, []byte("HTTP request to an HTTPS server")) || // Go
			bytes.Contains(text, []byte("plain HTTP request was sent to HTTPS port"))) { // nginx
		return nil, &UnreachableError{c.shown, ErrSpeaksTLS}
	}
	return nil, &RefusedError{got.StatusCode, problem.Error, problem.Message}
}
