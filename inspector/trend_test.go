package inspector_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

func TestTheOverviewHasTrends(t *testing.T) {
	inBubble(t, func(d *desk) {
		w := d.watch("page=overview")
		if first := w.until("Calls waiting"); !strings.Contains(first, "not recorded") {
			d.Errorf("nothing is recorded yet:\n%s", first)
		}
		events := lockevents.New(usertest.Inspector(d, d.server.NewClient(d)))
		d.Cleanup(func() { _ = events.Close() })
		observed := usertest.Client(d.T, d.server, lockmw.WithObserver(events.Observer()))
		other := usertest.Client(d.T, d.server, lockmw.WithObserver(events.Observer()))
		_, hold := usertest.Lock(d, d.Context(), observed, "user:42")
		d.wait(other, "user:42")
		d.wait(d.client(), "user:42")
		w.until("2 at most")
		usertest.Unlock(d, hold)
		w.until("Hand-overs: 1 in all")
		time.Sleep(5 * time.Minute)
		var a struct {
			Trends struct {
				Waiting   []*int
				Losses    []int
				HandOvers []int `json:"hand_overs"`
				Step      int   `json:"step_ms"`
			}
		}
		if err := json.Unmarshal([]byte(d.get("/trends.json", http.StatusOK)), &a); err != nil {
			d.Fatal(err)
		}
		tr := a.Trends
		if len(tr.Losses) != 31 || len(tr.Waiting) != 31 || slices.Max(tr.HandOvers) != 1 || slices.Max(tr.Losses) != 0 || tr.Step != 10_000 {
			d.Errorf("%+v", tr)
		}
		if tr.Waiting[0] == nil || *tr.Waiting[0] != 2 || tr.Waiting[20] != nil || tr.Waiting[30] == nil {
			d.Errorf("waits: %v", tr.Waiting)
		}
	})
}
