package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// refreshEvery is the interval at which a connection authenticates with the newest credentials.
// Providers send new ones minutes before the old ones expire.
const refreshEvery = 30 * time.Second

var errNoStream = errors.New("no credentials: AdjustClient has replaced DialCtxFn, which listens to the " +
	"StreamingCredentialsProvider; call the original DialCtxFn, or set AuthCredentialsFn, too")

// stream subscribes each connection to a credentials provider until the connection is closed.
func stream(co *rueidis.ClientOption, provider auth.StreamingCredentialsProvider) {
	newest := &atomic.Pointer[rueidis.AuthCredentials]{}
	dial := co.DialCtxFn
	co.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, d, t)
		if err != nil {
			return nil, err
		}
		l := &listener{Conn: conn, newest: newest}
		before := newest.Load()
		first, unsubscribe, err := provider.Subscribe(l)
		if err != nil {
			_ = conn.Close() // unusable without credentials
			return nil, err
		}
		l.unsubscribe = sync.OnceValue(unsubscribe)
		next := credentials(first.BasicAuth())
		newest.CompareAndSwap(before, &next) // unless newer ones have arrived in the meantime
		return l, nil
	}
	co.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		latest := newest.Load()
		if latest == nil {
			return rueidis.AuthCredentials{}, errNoStream
		}
		c := *latest
		c.RefreshAfter = time.Now().Add(refreshEvery)
		return c, nil
	}
}

// listener is a connection that receives new credentials.
type listener struct {
	net.Conn
	newest      *atomic.Pointer[rueidis.AuthCredentials]
	unsubscribe auth.UnsubscribeFunc
}

// OnNext implements [auth.CredentialsListener].
func (l *listener) OnNext(c auth.Credentials) {
	next := credentials(c.BasicAuth())
	l.newest.Store(&next)
}

// OnError implements [auth.CredentialsListener]. The last credentials stay in use. When the server
// no longer accepts them, calls fail with the server's error.
func (l *listener) OnError(error) {}

// Close ends the subscription and closes the connection.
func (l *listener) Close() error {
	_ = l.unsubscribe() // ignore errors from the caller's provider
	return l.Conn.Close()
}
