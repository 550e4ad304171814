// Command quota gives a customer a quota per calendar month in the customer's time zone. It posts
// to a webhook when 80% of the quota is used, and when a request is denied. The receiver, which is
// part of this program, checks the signature.
//
//	go run ./examples/quota
//
// Five requests are allowed, the sixth is denied, and two events arrive.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// key is a secret that the sender and the receiver share. A real program reads it from a file.
var key = []byte("a secret of at least 16 bytes")

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	receiver := httptest.NewServer(http.HandlerFunc(receive))
	defer receiver.Close()
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	quiet := slog.New(slog.DiscardHandler)
	monitor, err := observe.New(observe.Config{Webhooks: []observe.Webhook{{URL: receiver.URL, Key: key}}, Logger: quiet})
	if err != nil {
		return err
	}
	set, err := policy.New(policy.Spec{Tiers: []policy.Tier{{Name: "pro", Identity: []string{"user", "ip"},
		Limits: policy.Limits(stint.Monthly(5).In("Europe/Berlin")), Notify: []int{80, 100}}}})
	if err != nil {
		return err
	}
	guard, err := policy.NewGuard(store, set, policy.GuardConfig{Observer: monitor, Logger: quiet})
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		var v policy.Verdict
		if err := guard.Decide(ctx, &policy.Input{Method: "GET", Path: "/", Claims: user("42")}, &v); err != nil {
			return err
		}
		if !v.Decision.Allowed {
			fmt.Printf("request %d is denied\n", n)
			break
		}
	}
	return monitor.Close() // posts the events that are still waiting
}

// receive prints an event if it is recent and signed with the key.
func receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	at, wrong := strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", r.Header.Get("Webhook-Id"), at, body)
	signature := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if err != nil || wrong != nil || time.Since(time.Unix(at, 0)).Abs() > 5*time.Minute ||
		!hmac.Equal([]byte(r.Header.Get("Webhook-Signature")), []byte(signature)) {
		http.Error(w, "the signature is wrong", http.StatusUnauthorized)
		return
	}
	var event struct {
		Data struct {
			Subject, Limit string
			Percent        int
		}
	}
	if err := json.Unmarshal(body, &event); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Printf("received: %s has used %d%% of %s\n", event.Data.Subject, event.Data.Percent, event.Data.Limit)
}

// user is the caller. A real program takes it from a session or a token.
type user string

func (u user) Claim(name string) string {
	if name == "user" {
		return string(u)
	}
	return ""
}
