package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/chart"
)

//go:embed static
var static embed.FS

// page is a file that is served unchanged.
type page struct {
	body        []byte
	media, etag string
}

// pages holds the files of the page, by path.
type pages map[string]page

// media holds the media types by extension. Package mime is not used, because its types depend on
// the host.
var media = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// readPages reads all files of the page, including the chart files, which reports also use.
func readPages() (pages, error) {
	all := pages{}
	err := fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		return all.add(name, body)
	})
	if err == nil {
		err = all.add("static/chart.js", []byte(chart.Script))
	}
	if err == nil {
		err = all.add("static/chart.css", []byte(chart.Style))
	}
	return all, err
}

func (all pages) add(name string, body []byte) error {
	kind, known := media[path.Ext(name)]
	if !known {
		return fmt.Errorf("dashboard: %s: unknown file type", name)
	}
	sum := sha256.Sum256(body)
	all["/"+name] = page{body, kind, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
	return nil
}

// handler returns a handler that serves the page, and passes all other requests to api.
func (all pages) handler(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { all.serve(w, r, "/static/index.html") })
	mux.HandleFunc("GET /static/", all.file)
	mux.Handle("/", api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		mux.ServeHTTP(w, r)
	})
}

func (all pages) file(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/index.html") { // the links of index.html work only at /
		all.serve(w, r, "")
		return
	}
	all.serve(w, r, r.URL.Path)
}

// serve serves a file. Browsers may cache the file, but must revalidate it every time, because the
// program may have been updated.
func (all pages) serve(w http.ResponseWriter, r *http.Request, name string) {
	file, ok := all[name]
	if !ok {
		notFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.media)
	h.Set("ETag", file.etag)
	h.Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file.body))
}
