package tracing

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An Option configures New. Functions in options must be safe for concurrent use. If one panics, the panic is reported to
// OpenTelemetry's error handler, and the option's default applies.
type Option func(*config)

type config struct {
	tracerProvider trace.TracerProvider
	meterProvider  metric.MeterProvider
	attributes     []attribute.KeyValue
	spanAttributes func(context.Context, lockmw.Attempt) []attribute.KeyValue
	spanName       func(span, name string) string
	filter         func(context.Context, lockmw.Attempt) bool
	redactKey      func(string) string
	holderLinks    bool
	quoteErrors    bool
}

// newConfig returns the sum of the options. It panics if a value is invalid.
func newConfig(opts []Option) *config {
	c := &config{
		tracerProvider: otel.GetTracerProvider(),
		meterProvider:  otel.GetMeterProvider(),
		spanAttributes: func(context.Context, lockmw.Attempt) []attribute.KeyValue { return nil },
		spanName:       defaultSpanName,
		filter:         func(context.Context, lockmw.Attempt) bool { return true },
		redactKey:      func(key string) string { return key },
		holderLinks:    true,
		quoteErrors:    true,
	}
	option.Apply(c, "tracing: New", opts)
	for _, o := range []struct {
		name  string
		value any
	}{
		{"WithTracerProvider", c.tracerProvider},
		{"WithMeterProvider", c.meterProvider},
		{"WithSpanAttributes", c.spanAttributes},
		{"WithSpanNameFormatter", c.spanName},
		{"WithFilter", c.filter},
		{"WithKeyRedactor", c.redactKey},
	} {
		if option.IsNil(o.value) {
			panic("tracing: New: " + o.name + "(nil): leave the option out for its default")
		}
	}
	for _, a := range c.attributes {
		if _, broken := cleanAttribute(a); broken || !a.Valid() {
			panic(fmt.Sprintf("tracing: New: WithAttributes: attribute %q is not valid: it has no key or no value, or is not UTF-8", a.Key))
		}
	}
	return c
}

// WithTracerProvider sets the provider for spans. Default: otel.GetTracerProvider().
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) { c.tracerProvider = p }
}

// WithMeterProvider sets the provider for metrics. Default: otel.GetMeterProvider().
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) { c.meterProvider = p }
}

// WithAttributes adds the same attributes to every span and every metric, for example the name of the deployment. If it is given
// several times, all attributes are added. New panics if an attribute has no key or value, or is not UTF-8.
func WithAttributes(attrs ...attribute.KeyValue) Option {
	attrs = slices.Clone(attrs)
	return func(c *config) { c.attributes = append(slices.Clip(c.attributes), attrs...) }
}

// WithSpanAttributes adds attributes to the spans of an attempt. f gets the caller's context. It is called once for each attempt,
// and only if a span is recorded.
func WithSpanAttributes(f func(context.Context, lockmw.Attempt) []attribute.KeyValue) Option {
	return func(c *config) { c.spanAttributes = f }
}

// WithSpanNameFormatter sets the names of spans. span is "acquire_lock" or "hold_lock", and name is the lock's name. The result
// must depend only on these two, because it is cached. Default: both, separated by a space.
func WithSpanNameFormatter(f func(span, name string) string) Option {
	return func(c *config) { c.spanName = f }
}

// WithFilter excludes attempts for which f returns false from spans and metrics. Spans of the work under the lock are then
// children of the caller's span. Default: all attempts are reported.
func WithFilter(f func(context.Context, lockmw.Attempt) bool) Option {
	return func(c *config) { c.filter = f }
}

// WithKeyRedactor hides keys: spans show the result of f instead of the key, or no key if the result is "". RedactKey is such a
// function, and HashKey makes one. With a redactor spans do not quote error messages, because servers and proxies may repeat keys
// in them. Default: the key itself.
func WithKeyRedactor(f func(key string) string) Option {
	return func(c *config) {
		c.redactKey, c.quoteErrors = f, false
	}
}

// WithHolderLinks sets whether the acquire_lock span of a call that found the lock held links to the spans of the holders, and
// shows the first of them in attributes. Default true. It does not affect the traceparent that is stored with a lock, to which
// other spans link.
func WithHolderLinks(on bool) Option {
	return func(c *config) { c.holderLinks = on }
}

// RedactKey is a function for WithKeyRedactor that shows "REDACTED" instead of every key.
func RedactKey(string) string { return "REDACTED" }

// HashKey returns a function for WithKeyRedactor that shows the first 128 bits of the key's HMAC-SHA256 as 32 hex digits. With
// the secret you can search for a key; without it keys cannot be guessed from the digits. Use the same secret in all processes.
// HashKey panics if the secret is empty.
func HashKey(secret []byte) func(key string) string {
	if len(secret) == 0 {
		panic("tracing: HashKey: the secret is empty")
	}
	secret = slices.Clone(secret)
	return func(key string) string {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(key))
		return hex.EncodeToString(mac.Sum(nil)[:16])
	}
}
