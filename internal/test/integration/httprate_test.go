package integration_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/go-chi/httprate"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

func TestKeyFunctionsOfHTTPRateFit(t *testing.T) {
	var keys []string
	local := lockmw.NewLocal()
	recording := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		keys = append(keys, key)
		return local.Lock(ctx, key, opts...)
	})
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, mw := range []func(http.Handler) http.Handler{
		httpmw.WithLock(recording, httprate.KeyByEndpoint),
		httpmw.WithLock(recording, httpmw.By("endpoint", httprate.KeyByEndpoint)),
		httpmw.WithLock(recording, httpmw.KeyFunc(httprate.JoinKeys(httprate.KeyByEndpoint))),
	} {
		mw(handler).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/orders", nil))
	}
	if want := []string{"/orders", "endpoint:/orders", "/orders:"}; !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
}
