package syntax

import (
	"net/netip"
	"net/url"
)

// WrongWebhook describes the mistake in the address of a webhook, and how to correct it. It returns
// "" if the address is valid. The result does not contain the address, which may be a secret.
func WrongWebhook(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "not a URL; want one such as https://example.com/quotas"
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return "http:// does not protect what is posted; want https://, or this machine, such as http://localhost:9000"
	}
	return ""
}
