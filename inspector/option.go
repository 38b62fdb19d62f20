package inspector

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/lockmw/go/internal/option"
)

// An Option changes what Handler serves.
type Option func(*config)

type config struct {
	traceURL  string                   // "": no links
	mayForce  func(*http.Request) bool // nil: nobody
	operator  func(*http.Request) string
	redactKey func(string) string // nil: keys are shown
	secret    []byte              // nil: a random one
	logger    *slog.Logger
}

// newConfig adds up the options. It panics if a value is invalid.
func newConfig(opts []Option) *config {
	c := &config{logger: slog.Default(), operator: func(*http.Request) string { return "" }}
	option.Apply(c, "inspector: Handler", opts)
	return c
}

// WithTraceURL links every hold that was traced to its trace: {trace_id} and {span_id} in the template are replaced,
// as in "https://jaeger.example.com/trace/{trace_id}". Default: no links. It panics if the template is not an absolute
// http or https URL, or has no {trace_id}.
func WithTraceURL(template string) Option {
	u, err := url.Parse(template)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !strings.Contains(template, "{trace_id}") {
		panic(fmt.Sprintf("inspector: WithTraceURL(%q): want an http or https URL with {trace_id} in it", template))
	}
	return func(c *config) { c.traceURL = template }
}

// WithForceUnlock lets those for whose requests may returns true take a lock away from its holder, as
// lockmw.Inspector.ForceUnlock does. A page shows the very hold first, and asks. Default: nobody may. may is called for
// every page, is to be quick, and must be safe for concurrent use. WithForceUnlock panics if may is nil.
func WithForceUnlock(may func(*http.Request) bool) Option {
	option.NotNil(may, "inspector: WithForceUnlock(nil): say who may")
	return func(c *config) { c.mayForce = may }
}

// WithOperator says who sends a request, for the log and the history of forced releases: name is to return what the service's own
// authentication knows, or "". Default: "", which the history has as "page". name must be safe for concurrent use. WithOperator
// panics if name is nil.
func WithOperator(name func(*http.Request) string) Option {
	option.NotNil(name, "inspector: WithOperator(nil): leave the option out for its default")
	return func(c *config) { c.operator = name }
}

// WithKeyRedactor shows what f returns in place of every key: on pages, in JSON and in the log. tracing.HashKey and
// tracing.RedactKey are such functions. Links then have the key encrypted, and error messages are not quoted, since servers
// may repeat keys in them. The filter looks at what is shown only. Default: the key itself. f must be safe for concurrent
// use. WithKeyRedactor panics if f is nil.
func WithKeyRedactor(f func(key string) string) Option {
	option.NotNil(f, "inspector: WithKeyRedactor(nil): leave the option out for its default")
	return func(c *config) { c.redactKey = f }
}

// WithSecret sets the secret that signs confirmations of WithForceUnlock, and encrypts the keys in links of
// WithKeyRedactor: at least 16 bytes, else WithSecret panics. Handlers behind one address need the same, or one does not accept
// what another has shown. Default: a random one for each Handler.
func WithSecret(secret []byte) Option {
	if len(secret) < 16 {
		panic(fmt.Sprintf("inspector: WithSecret: %d bytes, want 16 at least", len(secret)))
	}
	secret = bytes.Clone(secret)
	return func(c *config) { c.secret = secret }
}

// WithLogger sets where it is noted that a lock was taken away from its holder. Default: slog.Default().
func WithLogger(l *slog.Logger) Option {
	option.NotNil(l, "inspector: WithLogger(nil): leave the option out for its default")
	return func(c *config) { c.logger = l }
}
