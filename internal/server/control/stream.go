package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stint-limiter/stint/observe"
)

const (
	// streamTimeout is the maximum time that a stream may be silent. A working stream sends a tick
	// every second.
	streamTimeout = 15 * time.Second
	// maxEvent is the maximum length of a line in bytes. All data of an event is on one line.
	maxEvent = 4 << 20
)

var errSilent = fmt.Errorf("nothing has arrived for %v", streamTimeout)

// Stream calls onTick for every tick from the server, one per second, until the context or the
// stream ends, or onTick returns an error. It always returns an error: the error from onTick, an
// [*UnreachableError] if the stream has ended, or a [*RefusedError].
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
	var name, data string // the current event, which ends with an empty line
	for lines.Scan() {
		watchdog.Reset(streamTimeout)
		switch field, value, _ := strings.Cut(lines.Text(), ": "); {
		case field == "event":
			name = value
		case field == "data":
			data = value
		case lines.Text() == "":
			if name == "tick" {
				var tick observe.Tick
				if err := json.Unmarshal([]byte(data), &tick); err != nil {
					return ended(fmt.Errorf("its stream is malformed; is it another version of stint? %w", err))
				}
				if err := onTick(&tick); err != nil {
					return err
				}
			}
			name, data = "", ""
		}
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
