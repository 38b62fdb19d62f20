package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockmw/go/examples/orders/internal/books"
	"github.com/lockmw/go/examples/orders/internal/crowd"
	"github.com/lockmw/go/examples/orders/internal/settings"
	"github.com/lockmw/go/examples/orders/internal/telemetry"
)

// A Result has the figures of one sale.
type Result struct {
	Requests        int     `json:"requests"`
	Accepted        int     `json:"accepted"`
	SameOrder       int     `json:"same_order"`
	SameOrderLater  int     `json:"same_order_later"`
	Refused         int     `json:"refused"`
	Oversold        int     `json:"oversold"`
	DuplicateOrders int     `json:"duplicate_orders"`
	LostOrders      int     `json:"lost_orders"`
	LostLocks       int     `json:"lost_locks"`
	Shipped         int     `json:"shipped"`
	ShippedTwice    int     `json:"shipped_twice"`
	PerSecond       float64 `json:"per_second"`
	WaitP50         float64 `json:"wait_p50_ms"`
	WaitP99         float64 `json:"wait_p99_ms"`

	requeued int64
	slowest  []Wait
	failed   error
}

// NewResult combines the answers, the state of the books and the shop's counters.
func NewResult(t *crowd.Tally, a books.Audit, c *Counts, slowest []Wait) Result {
	r := Result{
		Requests:        int(t.Answered.Load()),
		Accepted:        len(t.Accepted),
		SameOrder:       t.Repeated,
		SameOrderLater:  t.Late,
		Refused:         t.Refused,
		LostLocks:       t.Lost,
		Oversold:        a.Oversold,
		DuplicateOrders: a.Duplicates,
		Shipped:         a.Shipped,
		ShippedTwice:    a.Twice,
		PerSecond:       round(float64(t.Answered.Load()) / t.Elapsed.Seconds()),
		WaitP50:         Milliseconds(c.percentile(50)),
		WaitP99:         Milliseconds(c.percentile(99)),
		requeued:        c.Requeued.Load(),
		slowest:         slowest,
		failed:          t.Failed,
	}
	for _, id := range t.Accepted {
		if a.Parcels[id] == 0 {
			r.LostOrders++
		}
	}
	return r
}

// Broken reports whether the sale broke a promise.
func (r *Result) Broken() bool {
	return r.Oversold+r.DuplicateOrders+r.LostOrders+r.ShippedTwice > 0 || r.failed != nil
}

// Milliseconds returns d in milliseconds with two decimals.
func Milliseconds(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }

func round(f float64) float64 { return math.Round(f*100) / 100 }

// Report prints the results of both sales, side by side.
func Report(w io.Writer, c settings.Settings, unlocked, locked Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d people click %d times each; %d items, %d of each in stock.\n\n", c.Users, c.Clicks, c.Items, c.Stock)

	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	line := func(name string, unlocked, locked any) { fmt.Fprintf(t, "%-20s\t%v\t%v\t\n", name, unlocked, locked) }
	line("", "without locks", "with locks")
	line("requests", unlocked.Requests, locked.Requests)
	line("accepted", unlocked.Accepted, locked.Accepted)
	line("same order again", unlocked.SameOrder, locked.SameOrder)
	if c.Clicks > 2 {
		line("  for a later click", unlocked.SameOrderLater, locked.SameOrderLater)
	}
	line("refused", unlocked.Refused, locked.Refused)
	line("oversold", unlocked.Oversold, locked.Oversold)
	line("duplicate orders", unlocked.DuplicateOrders, locked.DuplicateOrders)
	line("lost orders", unlocked.LostOrders, locked.LostOrders)
	line("shipped", unlocked.Shipped, locked.Shipped)
	line("shipped twice", unlocked.ShippedTwice, locked.ShippedTwice)
	line("locks, records lost", unlocked.LostLocks, locked.LostLocks)
	line("tasks queued again", unlocked.requeued, locked.requeued)
	line("requests per second", fmt.Sprintf("%.0f", unlocked.PerSecond), fmt.Sprintf("%.0f", locked.PerSecond))
	line("wait p50", fmt.Sprintf("%.1f ms", unlocked.WaitP50), fmt.Sprintf("%.1f ms", locked.WaitP50))
	line("wait p99", fmt.Sprintf("%.1f ms", unlocked.WaitP99), fmt.Sprintf("%.1f ms", locked.WaitP99))
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString("\n")
	WriteSlowest(&b, locked.slowest)
	if c.OTLP != "" {
		fmt.Fprintf(&b, "The spans and metrics of the sale with locks go to %s, as service %q.\n\n", c.OTLP, telemetry.Service)
	}
	writeVerdict(&b, &locked)
	if c.JSON {
		text, err := json.Marshal(struct {
			Unlocked Result `json:"unlocked"`
			Locked   Result `json:"locked"`
		}{unlocked, locked})
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeVerdict(w io.Writer, r *Result) {
	if r.failed != nil {
		_, _ = fmt.Fprintf(w, "With locks, a request failed: %v\n", r.failed)
	}
	if r.Broken() {
		_, _ = fmt.Fprintln(w, "With locks, the sale broke its promise.")
		return
	}
	_, _ = fmt.Fprintln(w, "With locks, nothing was oversold, ordered twice, lost or shipped twice.")
}

// WriteSlowest prints waits as a table.
func WriteSlowest(w io.Writer, waits []Wait) {
	if len(waits) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "The slowest waits, with the holder at their start:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "  waited\tlock\twho\theld by\tholder's trace\tprocess")
	for _, x := range waits {
		_, _ = fmt.Fprintf(t, "  %.0f ms\t%s\t%s\t%s\t%s\t%s\n", Milliseconds(x.Waited), x.Key, OrDash(x.Actor),
			OrDash(x.HeldBy), OrDash(traceID(x.Holder.TraceParent)), OrDash(x.Holder.Process))
	}
	_ = t.Flush()
	_, _ = fmt.Fprintln(w)
}

func traceID(traceparent string) string {
	if sc := spanOf(traceparent); sc.IsValid() {
		return sc.TraceID().String()
	}
	return ""
}

// OrDash returns s, or a dash if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
