package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/lockmw/go/examples/internal/redisserver"
)

// A report has the results of all cells.
type report struct {
	Redis      string   `json:"redis"`
	Processors int      `json:"processors"`
	Embedded   bool     `json:"embedded"`
	Seconds    float64  `json:"seconds"` // planned duration of each cell
	Cells      []result `json:"cells"`
}

// A result has the figures of one cell.
type result struct {
	Sellers            int      `json:"sellers"`
	Buyers             int      `json:"buyers"`
	Way                string   `json:"way"`
	Guarded            bool     `json:"guarded"`
	Seconds            float64  `json:"seconds"` // actual duration
	Listed             int64    `json:"listed"`
	Bought             int64    `json:"bought"`
	PerSecond          float64  `json:"listed_and_bought_per_second"`
	Retries            int64    `json:"retries"`
	RetriesPerPurchase *float64 `json:"retries_per_purchase"` // null if nothing was bought
	Missed             int64    `json:"offers_missed"`
	WaitMean           float64  `json:"wait_mean_ms"`
	WaitP99            float64  `json:"wait_p99_ms"`
	MoneyOff           int64    `json:"money_off"`
	SoldTwice          int      `json:"sold_twice"`
	Vanished           int      `json:"vanished"`

	way   *way
	load  load
	right bool // money and items are conserved
}

func newResult(c *cell, elapsed time.Duration, waits *hdrhistogram.Histogram, a audit) result {
	r := result{
		Sellers: c.sellers, Buyers: c.buyers, Way: c.way.name, Guarded: c.way.guarded,
		Seconds: round(elapsed.Seconds()),
		Listed:  c.listed.Load(), Bought: c.bought.Load(), Retries: c.retries.Load(), Missed: c.missed.Load(),
		WaitMean: round(waits.Mean() / 1000), WaitP99: round(float64(waits.ValueAtQuantile(99)) / 1000),
		MoneyOff: a.moneyOff, SoldTwice: a.soldTwice, Vanished: a.vanished,
		way: c.way, load: c.load, right: a.right(),
	}
	r.PerSecond = round(float64(r.Listed+r.Bought) / elapsed.Seconds())
	if r.Bought > 0 {
		each := round(float64(r.Retries) / float64(r.Bought))
		r.RetriesPerPurchase = &each
	}
	return r
}

func round(f float64) float64 { return math.Round(f*100) / 100 }

// broken reports whether a guarded way lost money or items, or sold one twice.
func (r *report) broken() bool {
	for _, c := range r.Cells {
		if c.Guarded && !c.right {
			return true
		}
	}
	return false
}

// print prints a table for each load.
func (r *report) print(w io.Writer, asJSON bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s. Each cell took %v s.\n", r.Redis, plural(r.Processors, "processor"), r.Seconds)
	if r.Embedded {
		b.WriteString("Scripts, and so locks, are much slower there than on a Redis server. Use -redis for realistic figures.\n")
	}
	for _, l := range r.loads() {
		fmt.Fprintf(&b, "\n%s\n", l.words())
		if err := r.table(&b, l); err != nil {
			return err
		}
	}
	b.WriteString("\n" + book + "\n\n")
	r.verdict(&b)
	if asJSON {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// book quotes the figures of "Redis in Action" (2013), measured for 60 s each.
const book = `"Redis in Action" (2013), section 6.2, on its author's machine: with WATCH the retries per purchase rise from
about 3 to 250, and the wait from under 10 ms to 500 ms, as the load grows. With a lock for each item there are
3,700 to 3,800 listings and purchases a second under every load, no retries, and waits under 3 ms.`

func (r *report) table(w io.Writer, of load) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%-22s\tlisted\tbought\tboth/s\tretries each\tmissed\tmean wait\tp99 wait\t  %s\t\n", "", "money and items")
	for _, c := range r.Cells {
		if c.load != of {
			continue
		}
		fmt.Fprintf(t, "%-22s\t%d\t%d\t%.0f\t%s\t%d\t%s\t%s\t  %s\t\n", c.way.title, c.Listed, c.Bought, c.PerSecond,
			c.retriesEach(), c.Missed, c.wait(c.WaitMean), c.wait(c.WaitP99), c.damage())
	}
	return t.Flush()
}

func (c *result) retriesEach() string {
	if c.RetriesPerPurchase == nil {
		return fmt.Sprintf("%d for none", c.Retries)
	}
	return short(*c.RetriesPerPurchase)
}

// wait formats the wait of a purchase.
func (c *result) wait(ms float64) string {
	if c.Bought == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f ms", ms)
}

// damage describes the findings of the audit.
func (c *result) damage() string {
	var found []string
	switch {
	case c.MoneyOff < 0:
		found = append(found, fmt.Sprintf("%d lost", -c.MoneyOff))
	case c.MoneyOff > 0:
		found = append(found, fmt.Sprintf("%d too much", c.MoneyOff))
	}
	if c.SoldTwice > 0 {
		found = append(found, plural(c.SoldTwice, "item")+" sold twice")
	}
	if c.Vanished > 0 {
		found = append(found, plural(c.Vanished, "item")+" vanished")
	}
	if c.Vanished < 0 {
		found = append(found, plural(-c.Vanished, "item")+" out of nowhere")
	}
	if len(found) == 0 {
		return "all there"
	}
	return strings.Join(found, ", ")
}

func (r *report) verdict(w io.Writer) {
	for _, c := range r.Cells {
		if c.Guarded && !c.right {
			_, _ = fmt.Fprintf(w, "%s, %s: a guarded way broke its promise: %s.\n", c.load.words(), c.way.title, c.damage())
		}
	}
	switch {
	case r.broken():
	case !slices.ContainsFunc(r.Cells, func(c result) bool { return c.Guarded }):
		_, _ = fmt.Fprintln(w, "No guarded way was run.")
	default:
		_, _ = fmt.Fprintln(w, "Every guarded way kept all money and items.")
	}
}

var version = regexp.MustCompile(`(?m)^(redis|valkey)_version:(\S+)`)

// describe names the server and its version.
func describe(ctx context.Context, server *redisserver.Server) string {
	if server.Embedded() {
		return "Redis embedded in this process (miniredis), Go " + strings.TrimPrefix(runtime.Version(), "go")
	}
	name := "Redis"
	info, _ := server.Client.Info(ctx, "server").Result()           // INFO may be denied
	for _, found := range version.FindAllStringSubmatch(info, -1) { // Valkey also names a compatible version of Redis
		name = strings.ToUpper(found[1][:1]) + found[1][1:] + " " + found[2]
	}
	return name + ", Go " + strings.TrimPrefix(runtime.Version(), "go")
}
