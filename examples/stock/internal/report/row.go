// Package report prints and draws the results of each way.
package report

import (
	"math"
	"strings"
	"time"

	"github.com/lockmw/go/examples/stock/internal/crowd"
	"github.com/lockmw/go/examples/stock/internal/faults"
	"github.com/lockmw/go/examples/stock/internal/shop"
)

// A Report has the results of all ways.
type Report struct {
	Database string `json:"database"`
	Redis    string `json:"redis"`
	Users    int    `json:"users"`
	Clicks   int    `json:"clicks"`
	Items    int    `json:"items"`
	Stock    int    `json:"stock"`
	AtOnce   int    `json:"at_once"`
	Ways     []Row  `json:"ways"`
}

// redisKind returns Redis without its address.
func (r *Report) redisKind() string {
	kind, _, _ := strings.Cut(r.Redis, " at ")
	return kind
}

// A Row has the results of one way.
type Row struct {
	Name    string `json:"name"`
	Does    string `json:"does"`
	Kept    bool   `json:"keeps_promises"`    // the way should keep its promises
	Skipped string `json:"skipped,omitempty"` // why it was not run

	Sold          int     `json:"sold"`       // orders in the books
	Oversold      int     `json:"oversold"`   // orders beyond the stock
	Duplicates    int     `json:"duplicates"` // orders beyond a user's first
	Unsold        int     `json:"unsold"`     // remaining stock that users wanted
	LostOrders    int     `json:"lost_orders"`
	Busy          int     `json:"busy"`          // calls that ran out of patience, or lost their lock
	Unknown       int     `json:"unknown"`       // calls whose answer was that the outcome of an earlier call is unknown
	NotKept       int     `json:"not_kept"`      // calls whose answer was that the order is stored, without its receipt
	Contradicting int     `json:"contradicting"` // answers with another receipt than the first answer for the same key
	Replayed      int     `json:"replayed"`      // answers that repeated the first answer for the same key
	PerSecond     float64 `json:"requests_per_second"`
	P50           float64 `json:"p50_ms"`
	P99           float64 `json:"p99_ms"`
	Retries       int     `json:"retries"`
	Failed        string  `json:"failed,omitempty"` // the first error that should never occur
	Scripts       []Scene `json:"faults"`
	WasAccepted   int     `json:"accepted"`
}

// A Scene has the results of one fault script.
type Scene struct {
	Name    string       `json:"name"`
	Skipped string       `json:"skipped,omitempty"` // why it was not played
	Failed  string       `json:"failed,omitempty"`  // why it did not finish
	Seen    bool         `json:"as_expected"`
	Facts   faults.Facts `json:"facts"`
}

// AddLoad adds the figures of the crowd.
func (r *Row) AddLoad(t *crowd.Tally) {
	r.WasAccepted = t.Results[shop.Sold] - t.Replayed
	r.Replayed, r.Contradicting = t.Replayed, t.Contradicting
	r.Unknown, r.NotKept = t.Results[shop.Unknown], t.Results[shop.NotKept]
	r.LostOrders = max(0, r.WasAccepted-r.Sold)
	r.Busy = t.Results[shop.Busy] + t.Results[shop.Lost]
	r.PerSecond = round(float64(t.Answered.Load()) / t.Elapsed.Seconds())
	r.P50 = milliseconds(t.Percentile(50))
	r.P99 = milliseconds(t.Percentile(99))
	r.Retries = t.Retries
	if t.Failed != nil {
		r.Failed = t.Failed.Error()
	}
}

// Broken reports whether the way broke a promise that it should keep, or a script did not finish.
func (r *Row) Broken() bool {
	for _, s := range r.Scripts {
		if s.Failed != "" || r.Kept && s.Skipped == "" && !s.Seen {
			return true
		}
	}
	return r.Kept && (r.Oversold+r.Duplicates+r.Contradicting+r.Unsold+r.LostOrders > 0 || r.Failed != "")
}

// Broken reports whether any way is broken.
func (r *Report) Broken() bool {
	for i := range r.Ways {
		if r.Ways[i].Broken() {
			return true
		}
	}
	return false
}

func milliseconds(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }

func round(f float64) float64 { return math.Round(f*100) / 100 }
