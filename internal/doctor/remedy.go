package doctor

import (
	"errors"
	"net"
	"regexp"
	"strings"
)

// remedies has the remedy for each error whose text contains these words. The first match counts.
var remedies = []struct{ of, do string }{
	{"NOAUTH", "put the user and the password into the URL: redis://user:password@host:port"},
	{"WRONGPASS", "the user or the password is wrong"},
	{"unauthenticated", "put the user and the password into the URL: redis://user:password@host:port"},
	{"NOPERM", "the user lacks a right: see " + pages + "#access-rights"},
	{"OOM", "free memory: see " + pages + "#memory"},
	{"READONLY", "use the address of the master, or a client for Sentinel"},
	{"LOADING", "wait: the server is loading its data"},
	{"MASTERDOWN", "a master is missing: wait for its replica, or start it"},
	{"CLUSTERDOWN", "a master is missing: wait for its replica, or start it"},
	{"MISCONF", "the server cannot write to its disk: check the free space and its log"},
	{"connection refused", "no server listens at this address: check host and port, and whether the server runs"},
	{"cluster support disabled", "the server is not a Cluster: use a URL for a single server"},
	{"same slot", "for a proxy, give lockmw.New the option WithSlottedKeys, and this command --slotted-keys; for a Cluster, use a URL for a Cluster"},
	{"MOVED", "the server belongs to a Cluster: use a URL for a Cluster"},
	{"first record does not look like a TLS handshake", "the server does not speak TLS at this port: use redis:// instead of rediss://"},
	{"certificate", "the server's certificate is not trusted: configure its CA certificate"},
	{"EOF", "the server closed the connection: it may require TLS (rediss://), or restrict clients"},
	{"i/o timeout", "no answer in time: check firewalls, and whether the server hangs"},
	{"context deadline exceeded", "no answer in time: check firewalls, and whether the server hangs"},
}

// Remedy returns the remedy for an error of Redis or of a connection to it; "" if none is known.
func Remedy(err error) string {
	text := err.Error()
	if _, rest, ok := strings.Cut(text, "no permissions to run the '"); ok {
		command, _, _ := strings.Cut(rest, "'")
		return "ACL SETUSER … +" + command
	}
	for _, r := range remedies {
		// Not as a part of longer words: the random keys of the examination may contain any letters.
		if regexp.MustCompile(`\b` + regexp.QuoteMeta(r.of) + `\b`).MatchString(text) {
			return r.do
		}
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "unknown host: check its name"
	}
	return ""
}
