package tokens

import (
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

// maxInflated is the maximum number of bytes that are read from a compressed response, after
// decompression.
const maxInflated = 16 << 20

// Meter reads the token counts of a response while the response passes through. It is safe for
// concurrent use. The zero value is not usable; see [Rules.Meter].
type Meter struct {
	rules *Rules
	mu    sync.Mutex
	ended bool
	to    io.Writer // destination of the body; nil before Begin, or if the body cannot be read

	scanner  *Scanner
	events   *events // nil if the response is not an event stream
	values   []int64 // value of each number in Rules.numbers; -1 if unknown
	inflater *io.PipeWriter
	inflated chan struct{} // closed when the goroutine that inflate started has ended
}

// Meter returns a new meter, for one response.
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

// Begin processes the header of a response. Call it once, before the first Write.
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

// inflate starts a goroutine that reads a compressed response. End waits for the goroutine.
func (m *Meter) inflate() {
	from, to := io.Pipe()
	plain := m.to
	m.inflater, m.inflated, m.to = to, make(chan struct{}), to
	go func() {
		defer close(m.inflated)
		if in, err := gzip.NewReader(from); err == nil {
			_, _ = io.Copy(plain, io.LimitReader(in, maxInflated)) // if a part cannot be read, the counts in it stay unknown
		}
		_ = from.Close()
	}()
}

// Write processes the next piece of the body. It does not retain the piece, and never fails.
func (m *Meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.to != nil && !m.ended {
		_, _ = m.to.Write(p)
	}
	return len(p), nil
}

// Trailer processes the header of a response again after the body, because it then contains the
// trailers.
func (m *Meter) Trailer(h http.Header) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.read(h)
	}
}

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

// End returns the counts of the response. After End, the meter ignores all input.
func (m *Meter) End() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	if m.inflater != nil {
		_ = m.inflater.Close()
		<-m.inflated
	}
	if m.events != nil {
		m.events.flush()
	}
	return m.counts()
}

// emptyEvents is the assumed maximum number of events without tokens in a stream: those at the
// beginning and the end, and those that keep the connection open.
const emptyEvents = 16

// SoFar returns a lower bound for the usage so far: the counts in the response, but at least one
// token of output for each event of a stream after the first emptyEvents. For a compressed
// response, the numbers of tokens are 0, because the actual ones are known only at the end.
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

// Found reports whether the response reported its usage.
func (c Counts) Found() bool { return c.Input >= 0 && (c.Output >= 0 || c.Events < 0) }

// Settled returns the usage of a request, given the counts in its response, its estimate, and
// whether the response is an error. Missing numbers of input and output tokens come from the
// estimate, and a missing number of cached tokens is 0. With Config.CountEvents, the number of
// events replaces the missing output of a stream. If a response is not a stream and reports input
// but no output, as for embeddings, the output is 0. If an error response reports no counts, the
// usage is 0.
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
