package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/observe"
)

// stream sends an event every second, until the client goes away or falls behind, or the dashboard
// closes.
func (d *dashboard) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case <-d.closed:
		answer.Refuse(w, http.StatusServiceUnavailable, "closed", "The server is shutting down.")
		return
	default:
	}
	select {
	case d.streams <- struct{}{}:
		defer func() { <-d.streams }()
	default:
		answer.Refuse(w, http.StatusServiceUnavailable, "busy",
			fmt.Sprintf("All %d streams are in use; close some pages that show the dashboard.", maxStreams))
		return
	}
	ticks, cancel := d.c.Monitor.Subscribe()
	defer cancel()

	out := &eventStream{w: w, control: http.NewResponseController(w)}
	if out.begin(r) != nil {
		return
	}
	for {
		select {
		case tick, open := <-ticks:
			if !open || out.send(&tick) != nil {
				return
			}
		case <-d.closed:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// eventStream writes server-sent events. Each must be read in time; the stream itself may last
// forever.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	b       bytes.Buffer
}

// begin sends the header.
func (s *eventStream) begin(r *http.Request) error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // for proxies that would buffer
	if r.ProtoMajor == 1 {
		h.Set("Connection", "close") // the deadline of the last event would apply to the next answer
	}
	s.w.WriteHeader(http.StatusOK)
	return s.flush()
}

// send sends a tick.
func (s *eventStream) send(t *observe.Tick) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	s.b.Reset()
	s.b.WriteString("event: tick\ndata: ")
	s.b.Write(text)
	s.b.WriteString("\n\n")
	return s.flush()
}

// flush sends the buffer. An error means that the client has gone or does not read.
func (s *eventStream) flush() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(sendTime)) // if it cannot be set, the server's own applies
	if _, err := s.w.Write(s.b.Bytes()); err != nil {
		return err
	}
	return s.control.Flush()
}
