package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// A result is what came of one sale.
type result struct {
	Requests        int     `json:"requests"`
	Accepted        int     `json:"accepted"`
	Refused         int     `json:"refused"`
	Oversold        int     `json:"oversold"`
	DuplicateOrders int     `json:"duplicate_orders"`
	LostOrders      int     `json:"lost_orders"`
	Shipped         int     `json:"shipped"`
	ShippedTwice    int     `json:"shipped_twice"`
	PerSecond       float64 `json:"per_second"`
	WaitP50         float64 `json:"wait_p50_ms"`
	WaitP99         float64 `json:"wait_p99_ms"`

	requeued int64
	slowest  []wait
	failed   error
}

func newResult(t *tally, a audit, s *sale) result {
	r := result{
		Requests:        int(t.requests.Load()),
		Accepted:        len(t.accepted),
		Refused:         t.refused,
		Oversold:        a.oversold,
		DuplicateOrders: a.duplicates,
		Shipped:         a.shipped,
		ShippedTwice:    a.twice,
		PerSecond:       round(float64(t.requests.Load()) / t.elapsed.Seconds()),
		WaitP50:         ms(s.counts.percentile(50)),
		WaitP99:         ms(s.counts.percentile(99)),
		requeued:        s.counts.requeued.Load(),
		slowest:         s.slowest.list(),
		failed:          t.failed,
	}
	for _, id := range t.accepted {
		if a.parcels[id] == 0 {
			r.LostOrders++
		}
	}
	return r
}

// broken reports whether a promise was broken.
func (r *result) broken() bool {
	return r.Oversold+r.DuplicateOrders+r.LostOrders+r.ShippedTwice > 0 || r.failed != nil
}

func ms(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }
func round(f float64) float64    { return math.Round(f*100) / 100 }

func report(w io.Writer, c config, unlocked, locked result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d people click %d times each; %d items, %d of each in stock.\n\n", c.users, c.clicks, c.items, c.stock)

	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	line := func(name string, unlocked, locked any) { fmt.Fprintf(t, "%-20s\t%v\t%v\t\n", name, unlocked, locked) }
	line("", "without locks", "with locks")
	line("requests", unlocked.Requests, locked.Requests)
	line("accepted", unlocked.Accepted, locked.Accepted)
	line("refused", unlocked.Refused, locked.Refused)
	line("oversold", unlocked.Oversold, locked.Oversold)
	line("duplicate orders", unlocked.DuplicateOrders, locked.DuplicateOrders)
	line("lost orders", unlocked.LostOrders, locked.LostOrders)
	line("shipped", unlocked.Shipped, locked.Shipped)
	line("shipped twice", unlocked.ShippedTwice, locked.ShippedTwice)
	line("tasks queued again", unlocked.requeued, locked.requeued)
	line("requests per second", math.Round(unlocked.PerSecond), math.Round(locked.PerSecond))
	line("wait p50", fmt.Sprintf("%.1f ms", unlocked.WaitP50), fmt.Sprintf("%.1f ms", locked.WaitP50))
	line("wait p99", fmt.Sprintf("%.1f ms", unlocked.WaitP99), fmt.Sprintf("%.1f ms", locked.WaitP99))
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString("\n")
	writeSlowest(&b, locked.slowest)
	if c.otlp != "" {
		fmt.Fprintf(&b, "The spans and metrics of the sale with locks are on their way to %s, as service %q.\n\n", c.otlp, service)
	}
	writeVerdict(&b, &locked)
	if c.json {
		text, err := json.Marshal(struct {
			Unlocked result `json:"unlocked"`
			Locked   result `json:"locked"`
		}{unlocked, locked})
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeVerdict(w io.Writer, r *result) {
	if r.failed != nil {
		_, _ = fmt.Fprintf(w, "With locks, a request failed: %v\n", r.failed)
	}
	if r.broken() {
		_, _ = fmt.Fprintln(w, "With locks, the sale broke its promise.")
		return
	}
	_, _ = fmt.Fprintln(w, "With locks, nothing was oversold, ordered twice, lost or shipped twice.")
}

func writeSlowest(w io.Writer, waits []wait) {
	if len(waits) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "The slowest waits, and who had the lock when they began:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "  waited\tlock\twho\theld by\tholder's trace\tprocess")
	for _, x := range waits {
		_, _ = fmt.Fprintf(t, "  %.0f ms\t%s\t%s\t%s\t%s\t%s\n", ms(x.waited), x.key, orDash(x.actor),
			orDash(x.heldBy), orDash(traceID(x.holder.TraceParent)), orDash(x.holder.Process))
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

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
