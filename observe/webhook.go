package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/stint-limiter/stint/internal/logsample"
)

const (
	// webhookQueue is how many alerts may wait to be posted. There are never many, unless nobody
	// takes them.
	webhookQueue = 64
	// webhookTime is how long a receiver may take to answer.
	webhookTime = 5 * time.Second
)

// webhookPauses are those before the second attempt to post an alert, and the third, which is the
// last.
func webhookPauses() []time.Duration { return []time.Duration{time.Second, 5 * time.Second} }

// webhook posts alerts to an address, in their order, in the background. A receiver that is slow or
// gone holds up nobody but itself: what it does not take is dropped and logged. The address is a
// secret, because those of chats are, and is not logged.
type webhook struct {
	address, instance string
	client            *http.Client
	pauses            []time.Duration
	logger            *slog.Logger
	dropped           logsample.Sampler
	queue             chan Alert
	cancel            context.CancelFunc
	done              chan struct{}
}

type notice struct {
	Alert
	Instance string `json:"instance"`
	// Text says it all in a line, as chats like it.
	Text string `json:"text"`
}

// newWebhook returns a webhook that runs until it is closed.
func newWebhook(address, instance string, logger *slog.Logger) *webhook {
	w := &webhook{
		address: address, instance: instance, pauses: webhookPauses(), logger: logger,
		client: &http.Client{
			Timeout: webhookTime,
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1,
				IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if w.instance == "" {
		w.instance, _ = os.Hostname() // without one there is nothing better than ""
	}
	w.start()
	return w
}

func (w *webhook) start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.queue, w.cancel, w.done = make(chan Alert, webhookQueue), cancel, make(chan struct{})
	go w.run(ctx)
}

// send posts an alert when its turn comes, unless too many are waiting.
func (w *webhook) send(a Alert) {
	select {
	case w.queue <- a:
	default:
		if unlogged, ok := w.dropped.Allow(1, time.Minute); ok {
			w.logger.Error("stint: alerts are not posted because too many are waiting for the webhook", "alert", a.Name, "unlogged", unlogged)
		}
	}
}

// close ends the posting. What has not been posted is not.
func (w *webhook) close() {
	w.cancel()
	<-w.done
	w.client.CloseIdleConnections()
}

func (w *webhook) run(ctx context.Context) {
	defer close(w.done)
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-w.queue:
			if err := w.deliver(ctx, a); err != nil && ctx.Err() == nil {
				w.logger.Error("stint: an alert was not posted to the webhook", "alert", a.Name, "state",
					a.State, "cause", err)
			}
		}
	}
}

// deliver posts an alert, several times if that may help.
func (w *webhook) deliver(ctx context.Context, a Alert) error {
	body, err := json.Marshal(notice{a, w.instance, w.text(&a)})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		again, err := w.post(ctx, body)
		if err == nil || !again || i == len(w.pauses) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(w.pauses[i]):
		}
	}
}

// post posts once. It reports whether to try again.
func (w *webhook) post(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the address is none")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "stint")
	answer, err := w.client.Do(r)
	if err != nil {
		var withAddress *url.Error
		if errors.As(err, &withAddress) {
			err = withAddress.Err
		}
		return true, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 1<<16) // so that the connection can be used again
	switch code := answer.StatusCode; {
	case code < 300:
		return false, nil
	default:
		return code >= 500 || code == http.StatusTooManyRequests, fmt.Errorf("the receiver answered %d", code)
	}
}

// text is an alert in a line.
func (w *webhook) text(a *Alert) string {
	if a.State == alertFiring {
		return fmt.Sprintf("[%s] stint on %s: %s (%s): %s", a.Severity, w.instance, a.Name,
			amount(a.Value, a.Unit), a.Summary)
	}
	return fmt.Sprintf("[ended] stint on %s: %s (%s)", w.instance, a.Name, amount(a.Value, a.Unit))
}
