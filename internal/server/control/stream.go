package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/stint-limiter/stint/observe"
)

const (
	// streamTimeout is how long a stream may be silent. A healthy stream has a tick every second.
	streamTimeout = 15 * time.Second
	// maxEvent is the maximum length of a line in bytes. The data of an event is on one line.
	maxEvent = 4 << 20
)

var errSilent = fmt.Errorf("nothing has arrived for %v", streamTimeout)

// Stream calls onTick for every tick from the server, one per second, until the context or the
// stream ends, or onTick returns an error. It never returns nil: the error is the one from onTick,
// an [*UnreachableError] for a stream that has ended, or a [*RefusedError].
func (c *Client) Stream(ctx context.Context, onTick func(*observe.Tick) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(streamTimeout, func() { cancel(errSilent) })
	defer watchdog.Stop()

	r, err := c.request(ctx, http.MethodGet, "/api/stream", nil, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	got, err := c.do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	ended := func(err error) error { return &UnreachableError{c.shown, err} }
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, maxEvent)
	for e := (event{}); lines.Scan(); {
		watchdog.Reset(streamTimeout)
		if !e.add(lines.Bytes()) {
			continue
		}
		if e.name == "tick" {
			var tick observe.Tick
			if err := json.Unmarshal(e.data, &tick); err != nil {
				return ended(fmt.Errorf("its stream is malformed; is it another version of stint? %w", err))
			}
			if err := onTick(&tick); err != nil {
				return err
			}
		}
		e = event{}
	}
	err = lines.Err()
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		err = errSilent
	case err == nil:
		err = io.EOF
	}
	return ended(err)
}

type event struct {
	name string
	data []byte
}

// add adds a line of the stream to the event, and reports whether the event is complete.
func (e *event) add(line []byte) bool {
	if len(line) == 0 {
		return true
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		e.name = string(value)
	case "data":
		if e.data != nil {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	}
	return false
}
