package tokens

import (
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

// maxInflated bounds how much of a compressed response is looked at, in bytes without compression.
const maxInflated = 16 << 20

// Meter reads what a response says about tokens, while it passes. It is safe for concurrent use.
// The zero value of it is of no use; see [Rules.Meter].
type Meter struct {
	rules *Rules
	mu    sync.Mutex
	ended bool
	to    io.Writer // what is read of the body; nil before Begin, and if it cannot be read

	scanner  *Scanner
	events   *events // nil if the response is no stream of events
	values   []int64 // by slot; -1 is not known
	inflater *io.PipeWriter
	inflated chan struct{} // closed when all has been looked at
}

// Meter returns a meter for a response.
func (r *Rules) Meter() *Meter {
	m := &Meter{rules: r, values: make([]int64, len(r.numbers))}
	for i := range m.values {
		m.values[i] = -1
	}
	m.scanner = NewScanner(r.respond, func(leaf int, value []byte, _ int64) {
		n, ok := Number(value)
		if !ok {
			return
		}
		for _, slot := range r.slots[leaf] {
			m.values[slot] = n
		}
	})
	return m
}

// Begin is called once, with the header of a response, before its body.
func (m *Meter) Begin(h http.Header) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended || m.to != nil {
		return
	}
	m.read(h)
	m.to = m.scanner
	if media, _, _ := mime.ParseMediaType(h.Get("Content-Type")); media == "text/event-stream" {
		m.events = &events{json: m.scanner, atEvent: true}
		m.to = m.events
	}
	switch strings.ToLower(strings.TrimSpace(h.Get("Content-Encoding"))) {
	case "", "identity":
	case "gzip", "x-gzip":
		m.inflate()
	default:
		m.to = nil
	}
}

// inflate has a goroutine look at what a compressed response says. It ends with the response.
func (m *Meter) inflate() {
	from, to := io.Pipe()
	plain := m.to
	m.inflater, m.inflated, m.to = to, make(chan struct{}), to
	go func() {
		defer close(m.inflated)
		if in, err := gzip.NewReader(from); err == nil {
			_, _ = io.Copy(plain, io.LimitReader(in, maxInflated)) // what cannot be read is not known
		}
		_ = from.Close()
	}()
}

// Write takes the next piece of the body. It keeps nothing of it, and never fails.
func (m *Meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.to != nil && !m.ended {
		_, _ = m.to.Write(p)
	}
	return len(p), nil
}

// Trailer takes the header of a response after its body, with the trailers in it.
func (m *Meter) Trailer(h http.Header) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.read(h)
	}
}

// read reads the fields of a header that are looked for.
func (m *Meter) read(h http.Header) {
	for _, f := range m.rules.fields {
		value := h.Get(f.name)
		if value == "" {
			value = h.Get(http.TrailerPrefix + f.name)
		}
		if n, ok := Number([]byte(strings.TrimSpace(value))); ok {
			m.values[f.slot] = n
		}
	}
}

// End returns what the response said. Nothing is read after that.
func (m *Meter) End() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	if m.inflater != nil {
		_ = m.inflater.Close()
		<-m.inflated
	}
	return m.counts()
}

// emptyEvents is how many events of a stream may carry no token: those that begin and end it, and
// those that keep the connection open.
const emptyEvents = 16

// SoFar returns what was used so far at least: what the response has said, and a token of output
// for each event of a stream beyond the first 16. Nothing is known of a compressed response before
// its end.
func (m *Meter) SoFar() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inflater != nil {
		return Counts{Events: -1}
	}
	c := m.counts()
	c.Input, c.Cached = max(c.Input, 0), max(c.Cached, 0)
	c.Output = max(c.Output, c.Events-emptyEvents, 0)
	return c
}

func (m *Meter) counts() Counts {
	c := Counts{Input: -1, Output: -1, Cached: -1, Events: -1}
	for slot, n := range m.values {
		if n < 0 {
			continue
		}
		sum := [...]*int64{isInput: &c.Input, isOutput: &c.Output, isCached: &c.Cached}[m.rules.numbers[slot]]
		*sum = max(*sum, 0) + n
	}
	if m.events != nil {
		c.Events = m.events.count
	}
	return c
}

// Found reports whether counts are those of a response that says what was used.
func (c Counts) Found() bool { return c.Input >= 0 && (c.Output >= 0 || c.Events < 0) }

// Settled returns what a request used, given what its response said, its estimate, and whether the
// response is an error. What the response does not say is estimated: the output by the events of a
// stream, if they count. A response with an input that is no stream and has no output generated
// nothing, as embeddings do not. An error that says nothing used nothing.
func (r *Rules) Settled(found, estimate Counts, failed bool) Counts {
	found.Model = estimate.Model
	found.Cached = max(found.Cached, 0)
	if failed && found.Input < 0 && found.Output < 0 {
		found.Input, found.Output = 0, 0
		return found
	}
	if found.Input >= 0 && found.Events < 0 {
		found.Output = max(found.Output, 0)
	}
	if found.Input < 0 {
		found.Input = estimate.Input
	}
	if found.Output < 0 {
		if found.Output = estimate.Output; r.config.CountEvents && found.Events >= 0 {
			found.Output = found.Events
		}
	}
	return found
}
