package main

import (
	"net/http"
	"net/netip"

	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

type explainCommand struct {
	Path      string       `arg:"" name:"path" help:"A file, a directory, or - for standard input."`
	Request   requestFlag  `required:"" placeholder:"'METHOD PATH'" help:"The request: a method and a path or URL. The method is GET by default. Queries are ignored."`
	Header    []headerFlag `sep:"none" placeholder:"'NAME: VALUE'" help:"A header field of the request. Can be repeated."`
	Claim     []claimFlag  `sep:"none" placeholder:"NAME=VALUE" help:"A claim about the caller, as the application would supply it. Can be repeated."`
	Peer      *peerFlag    `placeholder:"ADDRESS" help:"The other end of the connection, or unix for a Unix socket. Default: ${assumed_peer}."`
	Overrides string       `name:"overrides" placeholder:"FILE" help:"Overrides of subjects, as limits export prints them. They apply even if they have ended."`
	JSON      bool         `name:"json" help:"Print JSON."`
}

func (*explainCommand) Help() string {
	return `Shows which tier and policies apply to a request and which do not, who is charged, and what happens when it is
denied or the store fails. It uses no store. Keys contain hashes of secrets, as in the store.

    stint config explain stint.yaml --request 'POST /api/simulation/start' --claim user=42 --claim plan=pro
    stint config explain stint.yaml --request https://api.example.com/search --header 'X-API-Key: k1'
    stint config explain stint.yaml --request /search --peer 127.0.0.1 --header 'X-Forwarded-For: 203.0.113.9'`
}

// assumedPeer is the peer if the command line does not specify one. The address is reserved for
// documentation, so it does not belong to a real host or a trusted proxy.
const assumedPeer = "192.0.2.1"

func (c *explainCommand) Run(s *system) error {
	conf, err := s.load(c.Path)
	if err != nil {
		return err
	}
	var over []overrides.Override
	if c.Overrides != "" {
		if over, err = s.overridesFor(conf.Set, c.Overrides); err != nil {
			return err
		}
	}
	e := explanationOf(conf, c.input(), over)
	e.PeerAssumed = c.Peer == nil
	return s.show(c.JSON, e, e.text)
}

// input returns the request as middleware would pass it to package policy.
func (c *explainCommand) input() *policy.Input {
	in := &policy.Input{Method: c.Request.method, Host: c.Request.host, Path: c.Request.path, RawPath: c.Request.raw,
		Peer: netip.MustParseAddr(assumedPeer)}
	if c.Peer != nil {
		in.Peer = c.Peer.addr
	}
	header := http.Header{}
	for _, h := range c.Header {
		if h.name != "Host" {
			header.Add(h.name, h.value)
		} else if in.Host == "" {
			// As in net/http, the header does not contain the host. The host of a URL takes
			// precedence.
			in.Host = h.value
		}
	}
	known := claims{}
	for _, claim := range c.Claim {
		known[claim.name] = claim.value
	}
	in.Header, in.Claims = header, known
	return in
}

type claims map[string]string

func (c claims) Claim(name string) string { return c[name] }
