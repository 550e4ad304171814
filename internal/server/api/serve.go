package api

import (
	_ "embed"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/answer"
)

//go:embed openapi.json
var openAPI []byte

// Maximum sizes of request bodies, in bytes.
const (
	maxBody      = 64 << 10
	maxBatchBody = 1 << 20
)

type post struct {
	most int64 // the maximum size of the body in bytes
	do   func(a *API, w http.ResponseWriter, r *http.Request, body *reader)
}

var posts = map[string]post{
	"/v1/take":     {maxBody, one(stint.ModeTake)},
	"/v1/peek":     {maxBody, one(stint.ModePeek)},
	"/v1/reserve":  {maxBody, one(stint.ModeReserve)},
	"/v1/wait":     {maxBody, (*API).wait},
	"/v1/cooldown": {maxBody, (*API).coolDown},
	"/v1/batch":    {maxBatchBody, (*API).batch},
	"/v1/report":   {maxBody, one(driver.ModeForce)},
	"/v1/settle":   {maxBody, (*API).settle},
	"/v1/refund":   {maxBody, (*API).refund},
	"/v1/extend":   {maxBody, (*API).extend},
	"/v1/release":  {maxBody, (*API).release},
}

const documentPath = "/openapi.json"

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	switch p, ok := posts[r.URL.Path]; {
	case ok:
		a.servePost(w, r, p)
	case r.URL.Path != documentPath && r.URL.Path != usagePath:
		answer.Refuse(w, http.StatusNotFound, "not_found", "There is nothing here. See "+documentPath+".")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		answer.Refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "Use GET.")
	case r.URL.Path == usagePath:
		a.serveUsage(w, r)
	default:
		serveDocument(w)
	}
}

func serveDocument(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(openAPI)))
	_, _ = w.Write(openAPI) // an error means that the client has gone away
}

func (a *API) servePost(w http.ResponseWriter, r *http.Request, p post) {
	if !a.callers.Admit(w, r) {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, p.most))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		answer.Refuse(w, http.StatusRequestEntityTooLarge, "too_large", "The body is too large; want at most "+
			strconv.FormatInt(p.most, 10)+" bytes.")
	case err != nil:
		answer.Refuse(w, http.StatusBadRequest, "invalid", "The body could not be read completely.")
	default:
		read := newReader(body)
		read.query(r.URL.RawQuery)
		if read.ok() {
			p.do(a, w, r, read)
		} else {
			refuseMistakes(w, read)
		}
	}
}

// statusParameter is the URL parameter that sets the status of denials, and okStatus is its only
// valid value. Callers set it if their HTTP library retries requests that are answered with 429, or
// reports them as failed.
const (
	statusParameter = "status"
	okStatus        = "200"
)

func (r *reader) query(raw string) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		r.wrongIn("?", "the URL parameters are malformed; want none, or %s=%s", statusParameter, okStatus)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		r.in("?"+shown(name), func() {
			switch {
			case name != statusParameter:
				r.unknown(name, []string{statusParameter})
			case !slices.Equal(values[name], []string{okStatus}):
				r.wrong("is %q; want %s, to give denials this status, or leave it out",
					shown(strings.Join(values[name], ", ")), okStatus)
			default:
				r.alwaysOK = true
			}
		})
	}
}

type problem struct {
	answer.Problem
	Mistakes []mistake `json:"mistakes,omitempty"`
}

func mistaken(message string, list []mistake) *problem {
	return &problem{answer.Problem{Error: "invalid", Message: message}, list}
}

func refuseMistakes(w http.ResponseWriter, body *reader) {
	answer.JSON(w, http.StatusBadRequest, mistaken("The request has mistakes. Nothing was done.", body.mistakes))
}
