package main

import (
	"io"
	"net/http"

	"github.com/gin-gonic/gin"
)

// wrapGin makes a handler of gin's out of middleware. Around all routes there is a shorter way:
// limit(engine) is a handler like any other. This is for groups.
func wrapGin(m middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		outer := c.Writer
		defer func() { c.Writer = outer }()
		allowed := false
		m(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			allowed = true
			inner := &ginWriter{outer, w}
			c.Request, c.Writer = r, inner
			c.Next()
			inner.commit()
		})).ServeHTTP(outer, c.Request)
		if !allowed {
			c.Abort() // or gin goes on to the next handler
		}
	}
}

// ginWriter is gin's writer with that of the middleware in front: it sees all that is written. gin
// keeps a status back until there is a body, and so does this.
type ginWriter struct {
	gin.ResponseWriter
	w http.ResponseWriter
}

// Unwrap is for [http.ResponseController].
func (g *ginWriter) Unwrap() http.ResponseWriter { return g.w }

func (g *ginWriter) Write(p []byte) (int, error) {
	g.commit()
	return g.w.Write(p)
}

func (g *ginWriter) WriteString(s string) (int, error) {
	g.commit()
	return io.WriteString(g.w, s)
}

func (g *ginWriter) WriteHeaderNow() {
	g.commit()
	g.ResponseWriter.WriteHeaderNow()
}

func (g *ginWriter) Flush() {
	g.commit()
	g.ResponseWriter.Flush()
}

// commit tells the middleware the status, as long as nothing is sent.
func (g *ginWriter) commit() {
	if !g.Written() {
		g.w.WriteHeader(g.Status())
	}
}
