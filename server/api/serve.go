package api

import (
	_ "embed"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
)

// openAPI describes the API.
//
//go:embed openapi.json
var openAPI []byte

// Bounds on bodies, in bytes.
const (
	maxBody      = 64 << 10
	maxBatchBody = 1 << 20
)

// post is a path of the API.
type post struct {
	most int64 // bytes of body
	do   func(a *API, w http.ResponseWriter, r *http.Request, body *reader)
}

// posts are the paths that take a body.
var posts = map[string]post{
	"/v1/take":    {maxBody, one(stint.Take)},
	"/v1/peek":    {maxBody, one(stint.Peek)},
	"/v1/reserve": {maxBody, one(stint.Reserve)},
	"/v1/batch":   {maxBatchBody, (*API).batch},
	"/v1/settle":  {maxBody, amend(settlement)},
	"/v1/refund":  {maxBody, amend(refund)},
	"/v1/extend":  {maxBody, amend(extension)},
	"/v1/release": {maxBody, amend(release)},
}

const documentPath = "/openapi.json"

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == documentPath {
		serveDocument(w, r)
		return
	}
	p, ok := posts[r.URL.Path]
	switch {
	case !ok:
		answer.Refuse(w, http.StatusNotFound, "not_found", "There is nothing here. See "+documentPath+".")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		answer.Refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "Want POST.")
	default:
		a.servePost(w, r, p)
	}
}

func serveDocument(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		answer.Refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "Want GET.")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(openAPI)))
	_, _ = w.Write(openAPI) // a client that has gone away needs no answer
}

// notLocal is why a caller is refused.
const notLocal = "no token is configured, so that only callers on this host are answered, who call it localhost or by its address"

func (a *API) servePost(w http.ResponseWriter, r *http.Request, p post) {
	if !a.config.Public && !callers.Local(r) {
		a.log.stranger(callers.Peer(r), notLocal)
		w.Header().Set("WWW-Authenticate", "Bearer")
		answer.Refuse(w, http.StatusUnauthorized, "unauthorized", "The caller is refused: "+notLocal+".")
		return
	}
	// A page in a browser cannot send this type to another site without being asked first.
	if why := badType(r); why != "" {
		answer.Refuse(w, http.StatusUnsupportedMediaType, "unsupported_media_type", why)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, p.most))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		answer.Refuse(w, http.StatusRequestEntityTooLarge, "too_large", "The body is too large; want at most "+strconv.FormatInt(p.most, 10)+" bytes.")
	case err != nil:
		answer.Refuse(w, http.StatusBadRequest, "invalid", "The body could not be read to its end.")
	default:
		p.do(a, w, r, newReader(body))
	}
}

// badType says what is wrong with the type of a body, or "".
func badType(r *http.Request) string {
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch charset, ok := parameters["charset"]; {
	case err != nil || media != "application/json" || ok && !strings.EqualFold(charset, "utf-8"):
		return "Want Content-Type: application/json, in UTF-8."
	case r.Header.Get("Content-Encoding") != "":
		return "Want a body without Content-Encoding."
	}
	return ""
}

// problem is the answer to a request that was not decided.
type problem struct {
	answer.Problem
	Mistakes []mistake `json:"mistakes,omitempty"`
}

// mistaken is the problem of a request with mistakes.
func mistaken(message string, list []mistake) *problem {
	return &problem{answer.Problem{Error: "invalid", Message: message}, list}
}

// refuseMistakes answers a request whose body is not good.
func refuseMistakes(w http.ResponseWriter, body *reader) {
	answer.JSON(w, http.StatusBadRequest, mistaken("The body has mistakes. Nothing was done.", body.mistakes))
}
