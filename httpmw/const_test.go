package httpmw_test

import (
	"net/http"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

func TestAConstantKeyIsTheSameForAllRequests(t *testing.T) {
	local := lockmw.NewLocal()
	handler := httpmw.WithLock(local, httpmw.Const("report", "nightly"))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := lockmw.Held(r.Context(), "report:nightly"); err != nil {
			t.Error(err)
		}
	}))
	if rec := post(handler, "/reports"); rec.Code != http.StatusOK {
		t.Errorf("got %d", rec.Code)
	}
}
