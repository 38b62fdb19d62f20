package doctor

import (
	"errors"
	"net"
	"strings"
)

// remedies are what to do about the errors whose texts contain these words. The first match counts.
var remedies = []struct{ of, do string }{
	{"NOAUTH", "give the user and the password in the URL: redis://user:password@host:port"},
	{"WRONGPASS", "the user or the password is wrong"},
	{"unauthenticated", "give the user and the password in the URL: redis://user:password@host:port"},
	{"NOPERM", "the user may not do that: compare it with " + pages + "#access-rights"},
	{"OOM", "free memory: see " + pages + "#memory"},
	{"READONLY", "give the address of the master, or use a client for Sentinel"},
	{"LOADING", "wait: the server reads its data"},
	{"MASTERDOWN", "a master is missing: wait for its replica, or start it"},
	{"CLUSTERDOWN", "a master is missing: wait for its replica, or start it"},
	{"MISCONF", "the server cannot write to its disk: look at its space, or at its log"},
	{"connection refused", "no server listens there: look at host and port, and whether it runs"},
	{"cluster support disabled", "the server is no Cluster: use a URL for a single one"},
	{"MOVED", "the server belongs to a Cluster: use a URL for a Cluster"},
	{"first record does not look like a TLS handshake", "the server does not speak TLS at this port: use redis:// instead of rediss://"},
	{"certificate", "the server's certificate is not trusted: give the certificate of its authority"},
	{"EOF", "the server closed the connection: it may want TLS (rediss://), or limit who connects"},
	{"i/o timeout", "no answer in time: look at firewalls, and whether the server hangs"},
	{"context deadline exceeded", "no answer in time: look at firewalls, and whether the server hangs"},
}

// Remedy returns what to do about an error of Redis or of a connection to it; "" if that is not known.
func Remedy(err error) string {
	text := err.Error()
	if _, rest, ok := strings.Cut(text, "no permissions to run the '"); ok {
		command, _, _ := strings.Cut(rest, "'")
		return "ACL SETUSER … +" + command
	}
	for _, r := range remedies {
		if strings.Contains(text, r.of) {
			return r.do
		}
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "the host is not known: look at its name"
	}
	return ""
}
