// Package goredis opens a store on the servers of an existing go-redis client. Only programs that
// import this package compile go-redis.
//
//	store, err := goredis.Open(ctx, client, redisstore.Config{}) // client is your *redis.Client
//	...
//	defer store.Close()
//	lim, err := stint.New(store, stint.PerMinute(100))
//
// Commands do not pass through the client, because it repeats failed calls, and a repeated charge
// counts twice. Instead the store opens its own connections, with these settings of the client:
//
//   - addresses, network, dialer and TLS; a failover client's dialer asks Sentinel for the master
//   - user name and password, CredentialsProvider, CredentialsProviderContext and
//     StreamingCredentialsProvider
//   - database, client name (default "stint"), protocol, DisableIdentity
//
// The store uses nothing else from the client: not its pool, timeouts, retries, hooks, OnConnect,
// read routing or client-side caching, nor a Cluster's NewClient. But its DialTimeout still bounds
// how long it takes to open a connection over TLS.
//
// The caller closes the client. A failover client must be closed after the store.
package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/redisstore"
)

// Open opens a store on the servers of a client: a [*redis.Client], including one from
// [redis.NewFailoverClient], a [*redis.ClusterClient] without ClusterSlots, or a type that embeds
// one of them. For any other client, it returns a [*stint.InvalidError]. Leave URL and Client of
// the Config empty. Open calls AdjustClient last, so AdjustClient may replace DialCtxFn to connect
// differently from the client.
func Open(ctx context.Context, client redis.UniversalClient, c redisstore.Config) (*redisstore.Store, error) {
	if c.URL != "" || c.Client != nil {
		return nil, invalid(errors.New("got both a go-redis client and a URL or Client in the Config; want only one of them"))
	}
	take, err := settings(client)
	if err != nil {
		return nil, invalid(err)
	}
	adjust := c.AdjustClient
	c.AdjustClient = func(co *rueidis.ClientOption) {
		take(co)
		if adjust != nil {
			adjust(co)
		}
	}
	return redisstore.Open(ctx, c)
}

func invalid(err error) error {
	return &stint.InvalidError{Err: fmt.Errorf("the go-redis client: %w", err)}
}

// settings returns a function that copies the client's settings.
func settings(client redis.UniversalClient) (func(*rueidis.ClientOption), error) {
	switch c := client.(type) {
	case interface{ Options() *redis.Options }:
		o := c.Options()
		return func(co *rueidis.ClientOption) { take(co, o, o.Addr) }, nil
	case interface{ Options() *redis.ClusterOptions }:
		o := c.Options()
		if o.ClusterSlots != nil {
			return nil, errors.New("ClusterSlots is set, as by NewFailoverClusterClient; " +
				"want a client from NewFailoverClient, or from NewClusterClient without ClusterSlots")
		}
		node := &redis.Options{
			Dialer: o.Dialer, DialTimeout: o.DialTimeout, Network: "tcp", TLSConfig: o.TLSConfig,
			Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
			CredentialsProviderContext:   o.CredentialsProviderContext,
			StreamingCredentialsProvider: o.StreamingCredentialsProvider,
			ClientName:                   o.ClientName, Protocol: o.Protocol,
			DisableIdentity: o.DisableIdentity,
		}
		if node.Dialer == nil {
			node.Dialer = redis.NewDialer(node)
		}
		return func(co *rueidis.ClientOption) { take(co, node, o.Addrs...) }, nil
	}
	return nil, fmt.Errorf("got a %T; want a *redis.Client or a *redis.ClusterClient", client)
}

// take copies the settings of a client to co.
func take(co *rueidis.ClientOption, o *redis.Options, addrs ...string) {
	co.InitAddress = addrs
	// The dialer handles TLS itself. TLSConfig determines which of the two ports of a Cluster node
	// the client uses, and whether the store warns that the certificate is not verified.
	co.TLSConfig = o.TLSConfig
	co.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, d.Timeout)
		defer cancel()
		return o.Dialer(ctx, o.Network, addr)
	}
	co.SelectDB = o.DB
	if o.ClientName != "" {
		co.ClientName = o.ClientName
	}
	co.AlwaysRESP2 = o.Protocol == 2
	if o.DisableIdentity {
		co.ClientSetInfo = []string{}
	}
	switch {
	case o.StreamingCredentialsProvider != nil:
		stream(co, o.StreamingCredentialsProvider)
	case o.CredentialsProviderContext != nil:
		timeout := co.Dialer.Timeout
		co.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			user, password, err := o.CredentialsProviderContext(ctx)
			return credentials(user, password), err
		}
	case o.CredentialsProvider != nil:
		co.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return credentials(o.CredentialsProvider()), nil
		}
	default:
		static := credentials(o.Username, o.Password)
		co.Username, co.Password = static.Username, static.Password
	}
}

// credentials returns the credentials that go-redis would send: none without a password.
func credentials(user, password string) rueidis.AuthCredentials {
	if password == "" {
		return rueidis.AuthCredentials{}
	}
	return rueidis.AuthCredentials{Username: user, Password: password}
}
