package main

import (
	"io"
	"math"
	"slices"

	"github.com/lockmw/go/examples/internal/chart"
)

// loads returns the loads of the report, in their order.
func (r *report) loads() (list []load) {
	for _, c := range r.Cells {
		if !slices.Contains(list, c.load) {
			list = append(list, c.load)
		}
	}
	return list
}

// under returns the cells of a load.
func (r *report) under(l load) (cells []result) {
	for _, c := range r.Cells {
		if c.load == l {
			cells = append(cells, c)
		}
	}
	return cells
}

// draw draws the picture: a column for each load, and a row for each of three figures.
func (r *report) draw(w io.Writer) error {
	page := chart.Page{
		Legend: []chart.Mark{
			{Tone: chart.Good, Says: "all money and items are there"},
			{Tone: chart.Bad, Says: "broken: money or items were lost, or sold twice"},
		},
		Margin: 150,
		Rows: []chart.Row{
			{Caption: "listed (strong) and bought (pale) per second"},
			{Caption: "wait of a purchase: mean (dot) to p99 (ring), ms"},
			{Caption: "retries per purchase"},
		},
	}
	most := func(of func(*result) float64) (most float64) { // of all cells: the plots of a row have one scale
		for _, c := range r.Cells {
			most = max(most, of(&c))
		}
		return most
	}
	speed := chart.Panel{Most: max(1, most(func(c *result) float64 { return c.PerSecond })), Room: 84}
	longest := most(func(c *result) float64 { return max(c.WaitP99, c.WaitMean) })
	waits := chart.Panel{Log: true, Least: -1, Most: max(1, math.Ceil(math.Log10(max(longest, 1)))), Room: 66}
	tries := chart.Panel{Most: max(1, most(retries)), Room: 84}
	for i, l := range r.loads() {
		page.Heads = append(page.Heads, l.words())
		speed.Lines, waits.Lines, tries.Lines = nil, nil, nil
		for _, c := range r.under(l) {
			if i == 0 {
				page.Names = append(page.Names, c.way.title)
			}
			speed.Lines = append(speed.Lines, speedOf(&c))
			waits.Lines = append(waits.Lines, waitsOf(&c))
			tries.Lines = append(tries.Lines, triesOf(&c))
		}
		for row, panel := range []chart.Panel{speed, waits, tries} {
			page.Rows[row].Panels = append(page.Rows[row].Panels, panel)
		}
	}
	return page.Draw(w)
}

// tones are the colours of a cell.
func tones(c *result) (strong, pale chart.Tone) {
	if c.right {
		return chart.Good, chart.GoodPale
	}
	return chart.Bad, chart.BadPale
}

// speedOf shows what was listed and bought per second, one upon the other.
func speedOf(c *result) chart.Line {
	strong, pale := tones(c)
	listed := float64(c.Listed) / c.Seconds
	line := chart.Line{
		Bars: []chart.Bar{{To: listed, Tone: strong}, {From: listed, To: c.PerSecond, Tone: pale}},
		Note: chart.Number(c.PerSecond),
	}
	if !c.right {
		line.Note, line.Tone = line.Note+" broken", chart.Bad
	}
	return line
}

// waitsOf shows a line from the mean wait to the 99th percentile, by their logarithms.
func waitsOf(c *result) chart.Line {
	if c.Bought == 0 {
		return chart.Line{Note: "nothing bought", Tone: chart.Bad}
	}
	strong, _ := tones(c)
	return chart.Line{
		Bars: []chart.Bar{{From: math.Log10(max(c.WaitMean, 0.1)), To: math.Log10(max(c.WaitP99, 0.1)), Tone: strong, Ends: true}},
		Note: short(c.WaitMean) + " to " + short(c.WaitP99),
	}
}

// triesOf shows how often a purchase was tried again.
func triesOf(c *result) chart.Line {
	if c.Bought == 0 {
		return chart.Line{Note: "nothing bought", Tone: chart.Bad}
	}
	return chart.Line{Bars: []chart.Bar{{To: retries(c), Tone: chart.Plain}}, Note: short(retries(c))}
}

func retries(c *result) float64 {
	if c.RetriesPerPurchase == nil {
		return 0
	}
	return *c.RetriesPerPurchase
}

// short is a number with two or three digits that count.
func short(f float64) string { return chart.Number(f) }
