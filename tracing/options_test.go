package tracing_test

import (
	"context"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/internal/test/exhibit"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

func TestInvalidOptionsPanic(t *testing.T) {
	for name, o := range map[string]tracing.Option{
		"option 1 is nil": nil,
		"WithTracerProvider(nil): leave the option out ":    tracing.WithTracerProvider(nil),
		"WithMeterProvider(nil): leave the option out ":     tracing.WithMeterProvider(nil),
		"WithTracerProvider(nil): leave the option":         tracing.WithTracerProvider((*sdktrace.TracerProvider)(nil)),
		"WithMeterProvider(nil): leave the option":          tracing.WithMeterProvider((*sdkmetric.MeterProvider)(nil)),
		"WithSpanAttributes(nil): leave the option out ":    tracing.WithSpanAttributes(nil),
		"WithSpanNameFormatter(nil): leave the option out ": tracing.WithSpanNameFormatter(nil),
		"WithFilter(nil): leave the option out ":            tracing.WithFilter(nil),
		"WithKeyRedactor(nil): leave the option out ":       tracing.WithKeyRedactor(nil),
		"WithAttributes: ": tracing.WithAttributes(attribute.KeyValue{}),
	} {
		t.Run(name, func(t *testing.T) {
			usertest.WantPanic(t, "tracing: New: "+name, "", func() { tracing.New(o) })
		})
	}
}

func TestHashKeyNeedsASecret(t *testing.T) {
	usertest.WantPanic(t, "tracing: HashKey", "", func() { tracing.HashKey(nil) })
}

func TestHashKeyIsAnHMAC(t *testing.T) {
	// RFC 4231, test case 2, cut to 128 bits.
	secret := []byte("Jefe")
	hash := tracing.HashKey(secret)
	for _, when := range []string{"", " after the caller's slice changed"} {
		if got := hash("what do ya want for nothing?"); got != "5bdcc146bf60754e6a042426089575c7" {
			t.Errorf("the hash is %s%s", got, when)
		}
		clear(secret)
	}
}

func TestKeyRedactors(t *testing.T) {
	hash := tracing.HashKey([]byte("secret"))
	for name, tt := range map[string]struct {
		redactor func(string) string
		want     any
	}{
		"RedactKey": {tracing.RedactKey, "REDACTED"},
		"HashKey":   {hash, hash("item:7")},
		"nothing":   {func(string) string { return "" }, nil},
		"panic":     {func(string) string { panic("oops") }, nil},
		"not UTF-8": {func(string) string { return "a\xffb" }, "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			ignoreErrors(t)
			m := newTelemetry(t, tracing.WithKeyRedactor(tt.redactor))
			local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
			_, hold := usertest.Lock(t, t.Context(), local, "item:7")
			usertest.Unlock(t, hold)
			for _, span := range []string{"acquire_lock item", "hold_lock item"} {
				if got := attributesOf(m.span(span))["distributed_lock.key"]; got != tt.want {
					t.Errorf("%s shows %v, want %v", span, got, tt.want)
				}
			}
		})
	}
	switch other := tracing.HashKey([]byte("other")); {
	case len(hash("item:7")) != 32 || hash("item:7") == hash("item:8"):
		t.Errorf("hashes: %q, %q", hash("item:7"), hash("item:8"))
	case hash("item:7") != tracing.HashKey([]byte("secret"))("item:7"):
		t.Error("the hash depends on more than secret and key")
	case hash("item:7") == other("item:7"):
		t.Error("the hash does not depend on the secret")
	}
}

// ignoreErrors takes OpenTelemetry's error handler for the test and returns what it gets.
func ignoreErrors(t *testing.T) *[]error {
	var errs []error
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { errs = append(errs, err) }))
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	return &errs
}

func TestPanicsOfTheUsersFunctionsDoNoHarm(t *testing.T) {
	errs := ignoreErrors(t)
	m := newTelemetry(t,
		tracing.WithFilter(func(context.Context, lockmw.Attempt) bool { panic("filter") }),
		tracing.WithSpanAttributes(func(context.Context, lockmw.Attempt) []attribute.KeyValue { panic("attributes") }),
		tracing.WithSpanNameFormatter(func(string, string) string { panic("name") }))
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	_, hold := usertest.Lock(t, t.Context(), local, "item:7")
	usertest.Unlock(t, hold)
	m.span("acquire_lock item")
	m.span("hold_lock item")
	m.allEnded()
	m.countersAtZero()
	for _, option := range []string{"WithFilter", "WithSpanAttributes", "WithSpanNameFormatter"} {
		if !slices.ContainsFunc(*errs, func(err error) bool { return strings.Contains(err.Error(), option) }) {
			t.Errorf("the panic in %s was not reported: %v", option, *errs)
		}
	}
}

func TestAttributesOfTheUser(t *testing.T) {
	calls := 0
	m := newTelemetry(t,
		tracing.WithAttributes(attribute.String("region", "eu")),
		tracing.WithAttributes(attribute.String("cell", "b")),
		tracing.WithSpanAttributes(func(ctx context.Context, a lockmw.Attempt) []attribute.KeyValue {
			calls++
			return []attribute.KeyValue{
				attribute.String("tenant", ctx.Value(valueKey{}).(string)),
				attribute.String("distributed_lock.name", "forged"),
			}
		}))
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	_, hold := usertest.Lock(t, context.WithValue(t.Context(), valueKey{}, "acme"), local, "item:7")
	usertest.Unlock(t, hold)
	for _, name := range []string{"acquire_lock item", "hold_lock item"} {
		got := attributesOf(m.span(name))
		for k, want := range map[attribute.Key]string{
			"region": "eu", "cell": "b", "tenant": "acme", "distributed_lock.name": "item",
		} {
			if got[k] != want {
				t.Errorf("%s: %s is %v, want %s", name, k, got[k], want)
			}
		}
	}
	if calls != 1 {
		t.Errorf("WithSpanAttributes' function was called %d times, want 1", calls)
	}
	want := []attribute.KeyValue{attribute.String("region", "eu"), attribute.String("cell", "b"), outcome("acquired")}
	if len(m.histogram("distributed_lock.wait.duration", want...)) != 1 {
		t.Error("wait.duration lacks the attributes")
	}
}

func TestSpanAttributesAreAskedForInTheCallersContext(t *testing.T) {
	var seen []trace.SpanID
	m := newTelemetry(t, tracing.WithSpanAttributes(func(ctx context.Context, _ lockmw.Attempt) []attribute.KeyValue {
		seen = append(seen, trace.SpanContextFromContext(ctx).SpanID())
		return nil
	}))
	caller, span := m.tracer.Start(t.Context(), "caller")
	newScriptIn(caller, m).acquire(lockmw.Acquisition{})
	newScriptIn(caller, m).run()
	span.End()
	if id := span.SpanContext().SpanID(); !slices.Equal(seen, []trace.SpanID{id, id}) {
		t.Errorf("seen in the spans %v, want twice in %v, the caller's", seen, id)
	}
}

func TestNothingIsBuiltForSpansThatAreNotRecorded(t *testing.T) {
	m := newTelemetryWith(t, sdktrace.NeverSample(),
		tracing.WithSpanAttributes(func(context.Context, lockmw.Attempt) []attribute.KeyValue {
			t.Error("the function was called")
			return nil
		}),
		tracing.WithKeyRedactor(func(string) string {
			t.Error("the function was called")
			return ""
		}))
	exhibit.Run(t, "item:7", m.observer)
	if n := len(m.histogram("distributed_lock.wait.duration")); n == 0 {
		t.Error("metrics depend on sampling")
	}
	m.countersAtZero()
}

func TestSpanNameFormatter(t *testing.T) {
	m := newTelemetry(t, tracing.WithSpanNameFormatter(func(span, name string) string { return name + "/" + span }))
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	_, hold := usertest.Lock(t, t.Context(), local, "item:7")
	usertest.Unlock(t, hold)
	m.span("item/acquire_lock")
	m.span("item/hold_lock")
}

func TestAFilteredAttemptLeavesOthersAlone(t *testing.T) {
	m := newTelemetry(t, tracing.WithFilter(func(_ context.Context, a lockmw.Attempt) bool { return a.Name != "noise" }))
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	outerCtx, outer := usertest.Lock(t, t.Context(), local, "item:7")
	innerCtx, inner := usertest.Lock(t, outerCtx, local, "noise:1")
	if trace.SpanFromContext(innerCtx) != trace.SpanFromContext(outerCtx) {
		t.Error("the work below a filtered lock is not in the caller's span")
	}
	usertest.Unlock(t, inner)
	if held := m.sum("distributed_lock.held"); held != 1 {
		t.Errorf("held is %d, want 1", held)
	}
	usertest.Unlock(t, outer)
	if got := m.names(); !slices.Equal(got, []string{"acquire_lock item", "hold_lock item"}) {
		t.Errorf("spans: %v", got)
	}
	m.countersAtZero()
}

func TestNamesAndKeysAreMadeValidUTF8(t *testing.T) {
	m := newTelemetry(t)
	local := lockmw.NewLocal(lockmw.WithObserver(m.observer))
	_, hold := usertest.Lock(t, t.Context(), local, "item:\xff", lockmw.WithName("\xfe"))
	usertest.Unlock(t, hold)
	for _, s := range m.spans.Ended() {
		if !utf8.ValidString(s.Name()) {
			t.Errorf("name %q", s.Name())
		}
		for k, v := range attributesOf(s) {
			if text, ok := v.(string); ok && !utf8.ValidString(text) {
				t.Errorf("%s is %q", k, text)
			}
		}
	}
}

func TestTheCoreDependsOnNoOpenTelemetry(t *testing.T) {
	deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/lockmw/go/lockmw", "github.com/lockmw/go/locklog").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	if strings.Contains(string(deps), "go.opentelemetry.io") {
		t.Errorf("dependencies of lockmw and locklog:\n%s", deps)
	}
}

func TestTheFirstThousandNamesAreKept(t *testing.T) {
	named := make(map[string]int) // how often the spans of a name had to be named
	m := newTelemetry(t, tracing.WithSpanNameFormatter(func(span, name string) string {
		named[name]++
		return span + " " + name
	}))
	use := func(name string) {
		a := lockmw.Attempt{Key: "item:7", Name: name, Op: "lock", Mode: "exclusive"}
		m.observer.Failed(m.observer.Start(t.Context(), a), a, lockmw.ErrBusy)
	}
	for range 2 {
		for i := range 1001 {
			use(strconv.Itoa(i))
		}
	}
	for i := range 1000 {
		if name := strconv.Itoa(i); named[name] != named["0"] {
			t.Fatalf("the spans of name %s were named %d times, the spans of the first name %d times", name, named[name], named["0"])
		}
	}
	if first, beyond := named["0"], named["1000"]; first != 2 || beyond != 4 {
		t.Errorf("formatted %d span names of a name in use and %d of one too many, want 2 and again each time", first, beyond)
	}
	if n := strings.Count(strings.Join(m.names(), "\n"), "acquire_lock 1000"); n != 2 {
		t.Errorf("%d spans of a name too many, want 2", n)
	}
}
