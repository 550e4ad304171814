package main

import (
	"net/http"
	"net/netip"

	"github.com/stint-limiter/stint/policy"
)

// explainCommand tells how a request would be judged.
type explainCommand struct {
	Path    string       `arg:"" name:"path" help:"A file, a directory, or - for standard input."`
	Request requestFlag  `required:"" placeholder:"'METHOD PATH'" help:"The request: a method and a path or URL. GET unless there is a method. A query is not looked at."`
	Header  []headerFlag `sep:"none" placeholder:"'NAME: VALUE'" help:"A header field of the request; as often as needed."`
	Claim   []claimFlag  `sep:"none" placeholder:"NAME=VALUE" help:"A fact that the application knows of the caller; as often as needed."`
	Peer    *peerFlag    `placeholder:"ADDRESS" help:"The other end of the connection, or unix for a Unix socket. Default: ${assumed_peer}."`
	JSON    bool         `name:"json" help:"Print JSON."`
}

// Help is the detailed help.
func (*explainCommand) Help() string {
	return `Which tier and which policies a request falls under and which not, whom it is charged to, and what happens
when it is denied or the store fails. No store is asked. Secrets stand in keys as hashes, as they do in the store.

    stint config explain stint.yaml --request 'POST /simulations' --claim user=42 --claim plan=pro
    stint config explain stint.yaml --request https://api.example.com/search --header 'X-API-Key: k1'
    stint config explain stint.yaml --request /search --peer 127.0.0.1 --header 'X-Forwarded-For: 203.0.113.9'`
}

// assumedPeer is an address for documentation: it is nobody's, and in no network that anybody trusts.
const assumedPeer = "192.0.2.1"

// Run prints the explanation.
func (c *explainCommand) Run(s *system) error {
	set, err := s.load(c.Path)
	if err != nil {
		return err
	}
	in := c.input()
	e := explanationOf(in, set.Explain(in))
	e.PeerAssumed = c.Peer == nil
	if c.JSON {
		return s.printJSON(e)
	}
	return s.print(e.text())
}

// input returns the request as an adapter would hand it over.
func (c *explainCommand) input() *policy.Input {
	in := &policy.Input{Method: c.Request.method, Host: c.Request.host, Path: c.Request.path, RawPath: c.Request.raw, Peer: netip.MustParseAddr(assumedPeer)}
	if c.Peer != nil {
		in.Peer = c.Peer.addr
	}
	header := http.Header{}
	for _, h := range c.Header {
		if h.name != "Host" {
			header.Add(h.name, h.value)
		} else if in.Host == "" { // servers keep it apart, and a URL goes first
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

// claims are what the application knows of a caller.
type claims map[string]string

func (c claims) Claim(name string) string { return c[name] }
