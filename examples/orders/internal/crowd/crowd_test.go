package crowd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/lockmw/go/examples/orders/internal/settings"
)

// All clicks of a user have the same key. The last one comes after the answers to the others, which are sent together.
func TestTheLastClickComesAfterTheOtherAnswers(t *testing.T) {
	var mu sync.Mutex
	var events []string
	note := func(event string) (n int) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, event)
		return len(events)
	}
	second := make(chan struct{})
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch note(r.Header.Get("Idempotency-Key")) {
		case 1:
			<-second
		case 2:
			close(second)
		}
		note("answer")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, `{"order":7}`)
	}))
	defer shop.Close()

	var tally Tally
	if err := tally.Drive(t.Context(), shop.URL, Plan(settings.Settings{Users: 1, Clicks: 3, Items: 1, Rush: 1})); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(events, " "), "intent-1 intent-1 answer answer intent-1 answer"; got != want {
		t.Errorf("the shop saw %s, want %s", got, want)
	}
	if len(tally.Accepted) != 1 || tally.Repeated != 2 || tally.Late != 1 || tally.Failed != nil {
		t.Errorf("accepted %v, repeated %d, late %d: %v", tally.Accepted, tally.Repeated, tally.Late, tally.Failed)
	}
}
