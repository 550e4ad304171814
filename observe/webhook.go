package observe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/internal/syntax"
)

// Webhook is an address to which a [Monitor] posts every [policy.Threshold]. docs/thresholds.md
// describes the body, and which messages can be lost or repeated.
type Webhook struct {
	// URL is the address. It begins with https://, or with http:// if the host is a loopback
	// address. Redirects are not followed.
	URL string
	// Key is the key with which messages are signed, so that the receiver can verify the sender. It
	// must have at least 16 bytes.
	Key []byte
}

// minWebhookKey is the minimum length of a key in bytes.
const minWebhookKey = 16

// Validate reports every mistake in w, in one [*stint.InvalidError]. The error does not contain the
// address, which may be a secret.
func (w *Webhook) Validate() error {
	var errs []error
	if wrong := syntax.WrongWebhook(w.URL); wrong != "" {
		errs = append(errs, fmt.Errorf("invalid webhook URL: %s", wrong))
	}
	if len(w.Key) < minWebhookKey {
		errs = append(errs, fmt.Errorf("webhook key has %d bytes; want at least %d", len(w.Key), minWebhookKey))
	}
	return asInvalid(errs)
}

const (
	webhookTime = 5 * time.Second
	// webhookDrain is the longest time that close waits for the queued messages to be posted.
	webhookDrain = 5 * time.Second
)

type message struct {
	id   string
	what string // what the message is about, for the log
	body []byte
}

// webhookPlan configures the posting of messages of one kind.
type webhookPlan struct {
	name    string // the name of the webhook in metrics
	kind    string // the kind of the messages, such as "alerts"
	media   string // the media type of the bodies
	key     []byte // signs the messages; nil for unsigned messages
	queue   int    // maximum number of waiting messages
	workers int    // number of messages posted concurrently; 1 preserves their order
	// pauses lists the pauses before the second and each later attempt to post a message.
	pauses []time.Duration
}

// webhook posts messages to an address, in the background. A slow or unreachable receiver delays
// nothing else: messages that cannot be posted are dropped, counted and logged. The log does not
// contain the address, because the addresses of chat services are secrets.
type webhook struct {
	webhookPlan
	address string
	drain   time.Duration
	client  *http.Client
	logger  *slog.Logger
	log     logsample.Sampler
	queue   chan message
	cancel  context.CancelFunc
	closing chan struct{}
	work    sync.WaitGroup

	posted, failed, dropped atomic.Int64
}

type webhooks []*webhook

func (all webhooks) send(m message) {
	for _, w := range all {
		w.send(m)
	}
}

func (all webhooks) close() {
	var work sync.WaitGroup
	for _, w := range all {
		work.Go(w.close)
	}
	work.Wait()
}

// newWebhook returns a webhook that does not post messages until start is called.
func newWebhook(address string, plan webhookPlan, logger *slog.Logger) *webhook {
	return &webhook{webhookPlan: plan, address: address, logger: logger, drain: webhookDrain,
		queue: make(chan message, plan.queue), closing: make(chan struct{}),
		client: &http.Client{
			Timeout: webhookTime,
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: plan.workers,
				IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (w *webhook) start() *webhook {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	for range w.workers {
		w.work.Go(func() { w.run(ctx) })
	}
	return w
}

func (w *webhook) send(m message) {
	select {
	case w.queue <- m:
	default:
		w.dropped.Add(1)
		if unlogged, ok := w.log.Allow(1, time.Minute); ok {
			w.logger.Error("stint: "+w.kind+" dropped: too many are waiting for the webhook", "about", m.what,
				"unlogged", unlogged)
		}
	}
}

// close posts the queued messages, for at most webhookDrain, and stops.
func (w *webhook) close() {
	close(w.closing)
	late := time.AfterFunc(w.drain, w.cancel)
	w.work.Wait()
	late.Stop()
	w.cancel()
	if n := len(w.queue); n > 0 {
		w.dropped.Add(int64(n))
		w.logger.Error("stint: "+w.kind+" dropped at shutdown: not posted to the webhook in time", "count", n)
	}
	w.client.CloseIdleConnections()
}

func (w *webhook) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case m := <-w.queue:
			w.deliver(ctx, &m)
			continue
		case <-w.closing:
		}
		select {
		case m := <-w.queue:
			w.deliver(ctx, &m)
		default:
			return
		}
	}
}

// deliver posts a message. It retries if a retry may succeed. Once w.closing is closed, it retries
// at most once, without a pause.
func (w *webhook) deliver(ctx context.Context, m *message) {
	last := false
	for i := 0; ; i++ {
		again, err := w.post(ctx, m)
		if err == nil {
			w.posted.Add(1)
			return
		}
		if !again || last || i == len(w.pauses) || ctx.Err() != nil {
			w.failed.Add(1)
			if unlogged, ok := w.log.Allow(logsample.Few, time.Second); ok {
				w.logger.Error("stint: failed to post "+w.kind+" to the webhook", "about", m.what, "id", m.id,
					"attempts", i+1, "cause", err, "unlogged", unlogged)
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-w.closing:
			last = true
		case <-time.After(w.pauses[i]):
		}
	}
}

// post posts a message once. If that fails, it reports whether to try again.
func (w *webhook) post(ctx context.Context, m *message) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address, bytes.NewReader(m.body))
	if err != nil {
		return false, errors.New("invalid webhook URL")
	}
	r.Header.Set("Content-Type", w.media)
	r.Header.Set("User-Agent", "stint")
	if w.key != nil {
		w.sign(r.Header, m, time.Now())
	}
	answer, err := w.client.Do(r)
	if err != nil {
		if withAddress, ok := errors.AsType[*url.Error](err); ok {
			err = withAddress.Err
		}
		return true, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 1<<16) // so that the connection can be reused
	switch code := answer.StatusCode; {
	case code < 300:
		return false, nil
	default:
		return code >= 500 || code == http.StatusTooManyRequests, fmt.Errorf("the receiver answered %d", code)
	}
}

// sign adds headers with a signature of the id, the time and the body. It uses the format of
// https://www.standardwebhooks.com, for which libraries exist in many languages.
func (w *webhook) sign(header http.Header, m *message, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, w.key)
	_, _ = io.WriteString(mac, m.id+"."+at+".") // never fails
	_, _ = mac.Write(m.body)
	header.Set("Webhook-Id", m.id)
	header.Set("Webhook-Timestamp", at)
	header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
