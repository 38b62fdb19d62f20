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

// An Option configures Handler.
type Option func(*config)

type config struct {
	traceURL  string                   // "": no links
	mayForce  func(*http.Request) bool // nil: nobody may
	operator  func(*http.Request) string
	redactKey func(string) string // nil: keys are shown
	secret    []byte              // nil: a random secret
	logger    *slog.Logger
}

// newConfig applies the options. It panics if one is nil.
func newConfig(opts []Option) *config {
	c := &config{logger: slog.Default(), operator: func(*http.Request) string { return "" }}
	option.Apply(c, "inspector: Handler", opts)
	return c
}

// WithTraceURL links each traced hold to its trace. It replaces {trace_id} and {span_id} in the template, such as
// "https://jaeger.example.com/trace/{trace_id}". Default: no links. It panics if the template is not an absolute
// http or https URL, or has no {trace_id}.
func WithTraceURL(template string) Option {
	u, err := url.Parse(template)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !strings.Contains(template, "{trace_id}") {
		panic(fmt.Sprintf("inspector: WithTraceURL(%q): must be an http or https URL that contains {trace_id}", template))
	}
	return func(c *config) { c.traceURL = template }
}

// WithForceUnlock allows requests for which may returns true to release a lock by force, as lockmw.Inspector.ForceUnlock does. A page
// shows exactly that hold first and asks for confirmation. Default: nobody may. may is called for every page, so it should be quick;
// it must be safe for concurrent use. WithForceUnlock panics if may is nil.
func WithForceUnlock(may func(*http.Request) bool) Option {
	option.NotNil(may, "inspector: WithForceUnlock(nil): pass a function that authorizes requests")
	return func(c *config) { c.mayForce = may }
}

// WithOperator sets the function that names the operator of a request, for the log and for the history of forced releases. name should
// return the user of the service's own authentication, or "". Default: "", which the history shows as "page". name must be safe for
// concurrent use. WithOperator panics if name is nil.
func WithOperator(name func(*http.Request) string) Option {
	option.NotNil(name, "inspector: WithOperator(nil): leave the option out for its default")
	return func(c *config) { c.operator = name }
}

// WithKeyRedactor replaces every key by the result of f: on pages, in JSON and in the log. tracing.HashKey and tracing.RedactKey are
// such functions. Links then contain the encrypted key, and error messages are omitted, because they may contain keys. The filter
// matches only the redacted text. Default: the key itself. f must be safe for concurrent use. WithKeyRedactor panics if f is nil.
func WithKeyRedactor(f func(key string) string) Option {
	option.NotNil(f, "inspector: WithKeyRedactor(nil): leave the option out for its default")
	return func(c *config) { c.redactKey = f }
}

// WithSecret sets the secret that signs the confirmations of WithForceUnlock and encrypts the keys in links of WithKeyRedactor. Handlers
// behind one address need the same secret; otherwise one does not accept the links and forms of another. Default: a random secret
// for each Handler. WithSecret panics if the secret has fewer than 16 bytes.
func WithSecret(secret []byte) Option {
	if len(secret) < 16 {
		panic(fmt.Sprintf("inspector: WithSecret: %d bytes, want at least 16", len(secret)))
	}
	secret = bytes.Clone(secret)
	return func(c *config) { c.secret = secret }
}

// WithLogger sets the logger for forced releases and errors. Default: slog.Default().
func WithLogger(l *slog.Logger) Option {
	option.NotNil(l, "inspector: WithLogger(nil): leave the option out for its default")
	return func(c *config) { c.logger = l }
}
