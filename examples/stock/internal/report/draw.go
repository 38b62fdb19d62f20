package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/lockmw/go/examples/internal/chart"
)

// Draw draws the figures as an SVG: a line for each way, and a column for each of three figures.
func (r *Report) Draw(w io.Writer) error {
	page := chart.Page{
		Title: fmt.Sprintf("%s people, %d clicks each, %d in stock; %s, %s", chart.Number(float64(r.Users)), r.Clicks, r.Stock, r.Database, r.redisKind()),
		Legend: []chart.Mark{
			{Tone: chart.Good, Says: "correct under load and in each fault script"},
			{Tone: chart.Warn, Says: "correct under load, with a flaw in a fault script"},
			{Tone: chart.Bad, Says: "broken under load"},
		},
		Margin: 112, Shares: []float64{10, 11, 12},
		Heads: []string{"requests per second", "time to answer: p50 to p99, ms", "what went wrong"},
	}
	speed := chart.Panel{Most: 1, Room: 42}
	waits := chart.Panel{Log: true, Least: math.Inf(1), Most: math.Inf(-1), Room: 70}
	var wrong chart.Panel
	for i := range r.Ways {
		row := &r.Ways[i]
		if row.Skipped != "" {
			continue
		}
		page.Names = append(page.Names, row.Name)
		tone := row.tone()
		speed.Most = max(speed.Most, row.PerSecond)
		speed.Lines = append(speed.Lines, chart.Line{
			Bars: []chart.Bar{{To: row.PerSecond, Tone: tone}}, Note: chart.Number(math.Round(row.PerSecond)),
		})
		from, to := math.Log10(max(row.P50, 0.01)), math.Log10(max(row.P99, 0.01))
		waits.Least, waits.Most = min(waits.Least, math.Floor(from)), max(waits.Most, to, math.Floor(from)+1)
		waits.Lines = append(waits.Lines, chart.Line{
			Bars: []chart.Bar{{From: from, To: max(to, from+0.02), Tone: tone}}, Note: fmt.Sprintf("%.0f to %.0f", row.P50, row.P99),
		})
		wrong.Lines = append(wrong.Lines, chart.Line{Note: row.wrongs(), Tone: tone})
	}
	if len(page.Names) == 0 {
		return errors.New("nothing was run that could be drawn")
	}
	page.Rows = []chart.Row{{Panels: []chart.Panel{speed, waits, wrong}}}
	return page.Draw(w)
}

// tone is the verdict on a way. It depends on what happened only, not on what the way is expected to do.
func (r *Row) tone() chart.Tone {
	switch {
	case r.Oversold+r.Duplicates+r.Contradicting > 0:
		return chart.Bad
	case r.flaws() > 0:
		return chart.Warn
	}
	return chart.Good
}

// wrongs says what went wrong.
func (r *Row) wrongs() string {
	var said []string
	if r.Oversold > 0 {
		said = append(said, chart.Number(float64(r.Oversold))+" oversold")
	}
	if r.Duplicates > 0 {
		said = append(said, chart.Number(float64(r.Duplicates))+" twice")
	}
	if r.Contradicting > 0 {
		said = append(said, chart.Number(float64(r.Contradicting))+" contradicting")
	}
	switch n := r.flaws(); {
	case n == 1:
		said = append(said, "1 flaw")
	case n > 1:
		said = append(said, fmt.Sprintf("%d flaws", n))
	}
	if len(said) == 0 {
		return "nothing"
	}
	return strings.Join(said, ", ")
}

// flaws counts the scripts that let something go wrong.
func (r *Row) flaws() (n int) {
	for _, s := range r.Scripts {
		f := s.Facts
		if f.Oversold+f.Duplicates+f.Blocked+f.Overtaken+f.Contradicting+f.Unknown+f.NotKept+f.Lost > 0 || f.Missing > f.Recovered {
			n++
		}
	}
	return n
}
