package tracing_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// Two buyers want the same item. The span of the second one's wait links to the first buyer's trace. A program would export the
// spans (go.opentelemetry.io/otel/exporters/otlp/otlptrace), and use lockmw.New instead of NewLocal.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	locks := lockmw.NewLocal(lockmw.WithObserver(tracing.New(
		tracing.WithTracerProvider(provider),
		tracing.WithKeyRedactor(tracing.HashKey([]byte("secret"))),
	)))

	buy := func(buyer string, work func(), opts ...lockmw.Option) error {
		ctx, span := provider.Tracer("shop").Start(context.Background(), buyer)
		defer span.End()
		return lockmw.Do(ctx, locks, lockmw.Key("item", "7"), func(context.Context) error {
			work()
			return nil
		}, opts...)
	}

	waits, second := make(chan struct{}), make(chan error)
	whenWaiting := lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(waits) },
	})
	err := buy("buyer 1", func() {
		go func() { second <- buy("buyer 2", func() {}, whenWaiting) }()
		<-waits
	})
	if err := <-second; err != nil {
		fmt.Println(err)
	}
	if err != nil {
		fmt.Println(err)
	}

	names := make(map[any]string) // of spans, by trace
	for _, s := range spans.GetSpans() {
		if !s.Parent.IsValid() {
			names[s.SpanContext.TraceID()] = s.Name
		}
	}
	for _, s := range spans.GetSpans() {
		for _, link := range s.Links {
			fmt.Printf("%s of %s waited for %s\n",
				s.Name, names[s.SpanContext.TraceID()], names[link.SpanContext.TraceID()])
		}
	}
	// Output: acquire_lock item of buyer 2 waited for buyer 1
}

// With the secret, you can compute what spans show for a key, and search for it.
func ExampleHashKey() {
	redact := tracing.HashKey([]byte("secret"))
	fmt.Println(redact(lockmw.Key("item", "7")))
	// Output: dc322e8c990a04bd68f777fb17185dcb
}
