package integration_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/riandyrn/otelchi"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A front makes a server's own spans around a handler at POST /items/{itemID}.
type front func(p trace.TracerProvider, lock func(http.Handler) http.Handler, h http.Handler) http.Handler

const clientTrace = "0af7651916cd43dd8448eb211c80319c"

var fronts = map[string]front{
	"otelhttp": func(p trace.TracerProvider, lock func(http.Handler) http.Handler, h http.Handler) http.Handler {
		r := chi.NewRouter()
		r.With(lock).Method(http.MethodPost, "/items/{itemID}", h)
		return otelhttp.NewHandler(r, "buy", otelhttp.WithTracerProvider(p), otelhttp.WithPropagators(propagation.TraceContext{}))
	},
	"otelchi": func(p trace.TracerProvider, lock func(http.Handler) http.Handler, h http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(otelchi.Middleware("shop", otelchi.WithChiRoutes(r), otelchi.WithTracerProvider(p),
			otelchi.WithPropagators(propagation.TraceContext{})))
		r.With(lock).Method(http.MethodPost, "/items/{itemID}", h)
		return r
	},
}

func TestLocksNestInTheServersSpan(t *testing.T) {
	for name, front := range fronts {
		t.Run(name, func(t *testing.T) {
			m := newTelemetry(t)
			locks := lockmw.NewLocal(lockmw.WithObserver(m.observer))
			handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, work := m.tracer.Start(r.Context(), "work")
				work.End()
			})
			h := front(m.provider, httpmw.WithLock(locks, httpmw.By("item", httpmw.URLParam("itemID"))), handler)
			r := httptest.NewRequest(http.MethodPost, "/items/7", nil)
			r.Header.Set("traceparent", "00-"+clientTrace+"-b7ad6b7169203331-01")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			server := m.serverSpan()
			if got := server.Parent().TraceID().String(); got != clientTrace {
				t.Errorf("the server's span is in trace %s, want the client's", got)
			}
			m.childOf(server, "acquire_lock item", "hold_lock item")
			m.childOf(m.span("hold_lock item"), "work")
			if key := keyOf(m.span("hold_lock item")); key != "item:7" {
				t.Errorf("key is %v", key)
			}
			m.allEnded()
			m.countersAtZero()
		})
	}
}

func TestARequestWithoutTheLockHasOnlyTheWaitInTheServersSpan(t *testing.T) {
	for name, front := range fronts {
		t.Run(name, func(t *testing.T) {
			m := newTelemetry(t)
			locks := lockmw.NewLocal()
			_, hold := usertest.Lock(t, t.Context(), locks, "item:7")
			defer hold.Unlock()
			handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("handled without the lock") })
			h := front(m.provider, httpmw.WithLock(locks, httpmw.By("item", httpmw.URLParam("itemID")), lockmw.WithObserver(m.observer)), handler)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/items/7", nil))
			m.childOf(m.serverSpan(), "acquire_lock item")
			if n := len(m.spans.Ended()); n != 2 || w.Code == http.StatusOK {
				t.Errorf("status %d, %d spans: %v", w.Code, n, m.spans.Ended())
			}
			m.countersAtZero()
		})
	}
}
