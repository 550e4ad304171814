package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/observe"
)

// stream sends an event every second. It ends when the client disconnects or does not read in time,
// when the context passed to [New] ends, or when the Monitor is closed.
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
			fmt.Sprintf("All %d streams are in use; close some dashboard pages.", maxStreams))
		return
	}
	names := d.namesFor(r)
	ticks, cancel := d.c.Monitor.Subscribe()
	defer cancel()

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // keeps proxies from buffering
	if r.ProtoMajor == 1 {
		h.Set("Connection", "close") // if reused, the connection would keep the deadline of the last event
	}
	w.WriteHeader(http.StatusOK)
	if send(w, nil) != nil {
		return
	}
	for {
		select {
		case tick, open := <-ticks:
			if !open {
				return
			}
			tick.Violations, tick.Offenders = names.violations(tick.Violations), names.offenders(tick.Offenders)
			if sendTick(w, &tick) != nil {
				return
			}
		case <-d.closed:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func sendTick(w http.ResponseWriter, t *observe.Tick) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return send(w, fmt.Appendf(nil, "event: tick\ndata: %s\n\n", text))
}

// send sends a part of a stream. The client must read it within sendTime; the duration of the whole
// stream is not limited. An error means that the client has disconnected or was too slow.
func send(w http.ResponseWriter, text []byte) error {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(sendTime)) // on failure, the server's own deadline applies
	if _, err := w.Write(text); err != nil {
		return err
	}
	return control.Flush()
}
