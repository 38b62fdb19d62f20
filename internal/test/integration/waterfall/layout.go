package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/integration/collector"
)

// All lengths are in pixels.
const (
	width     = 840.0 // the width at which pages show it
	margin    = 16.0
	laneStep  = 24.0
	barHeight = 18.0
	thinnest  = 2.0 // of a bar: a free lock takes less than a pixel
	padding   = 5.0 // between a bar and its label
	headStep  = 26.0
	axisStep  = 34.0
)

// A layout has the positions of everything.
type layout struct {
	traces []*row
	byID   map[collector.ID]*bar
	bars   []*bar // by beginning
	start  time.Time
	length time.Duration
	height float64
}

// A row is a trace: a heading, and below it lanes of bars.
type row struct {
	title string
	y     float64 // of the heading
	lanes [][]*bar
}

// A bar is a span.
type bar struct {
	collector.Span
	lane     int
	x, y, w  float64
	label    string
	labelX   float64
	anchor   string  // SVG's text-anchor
	from, to float64 // of the bar and its label
}

var errNoSpans = errors.New("there are no spans to draw")

// arrange lays out the spans. Traces are in the order of their beginnings. Within a trace, a span is below its parent, in the
// first lane that has room for it and its label.
func arrange(spans []collector.Span) (*layout, error) {
	if len(spans) == 0 {
		return nil, errNoSpans
	}
	l := &layout{byID: make(map[collector.ID]*bar), start: spans[0].Start}
	end := spans[0].End
	for _, s := range spans {
		if s.End.Before(s.Start) {
			return nil, fmt.Errorf("span %q ends before it starts", s.Name)
		}
		if l.byID[s.ID] != nil {
			continue // exported twice
		}
		b := &bar{Span: s}
		l.byID[s.ID] = b
		l.bars = append(l.bars, b)
		l.start = earlier(l.start, s.Start)
		if s.End.After(end) {
			end = s.End
		}
	}
	l.length = max(end.Sub(l.start), time.Microsecond)
	slices.SortFunc(l.bars, func(a, b *bar) int {
		return cmp.Or(a.Start.Compare(b.Start), b.End.Compare(a.End),
			cmp.Compare(a.ID.Trace, b.ID.Trace), cmp.Compare(a.ID.Span, b.ID.Span))
	})
	for _, b := range l.bars {
		l.measure(b)
	}
	l.place()
	l.stack()
	return l, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// x returns the position of a time on the axis.
func (l *layout) x(t time.Time) float64 {
	return margin + (width-2*margin)*float64(t.Sub(l.start))/float64(l.length)
}

// measure sets everything that does not depend on other bars: width, label, and the space of both.
func (l *layout) measure(b *bar) {
	b.x = min(l.x(b.Start), width-margin-thinnest)
	b.w = max(l.x(b.End)-b.x, thinnest)
	b.from, b.to = b.x, b.x+b.w
	inside, right, left := b.w-2*padding, width-margin-b.to-padding, b.x-padding-margin
	b.label = label(b.Span, max(inside, right, left))
	switch text := textWidth(b.label); {
	case text <= inside:
		b.labelX, b.anchor = b.x+padding, "start"
	case text <= right:
		b.labelX, b.anchor = b.to+padding, "start"
		b.to += padding + text
	default:
		b.labelX, b.anchor = b.from-padding, "end"
		b.from -= padding + text
	}
}

// label returns the name of a span and its duration, shortened to that much room.
func label(s collector.Span, room float64) string {
	duration := " " + lasts(s.End.Sub(s.Start))
	name := shorten(s.Name, 60)
	for n := 59; n > 1 && textWidth(name+duration) > room; n-- {
		name = shorten(s.Name, n)
	}
	return name + duration
}

// textWidth returns the greatest width of a text in the picture's font, whatever the font is.
func textWidth(s string) (w float64) {
	for _, r := range s {
		if r >= 0x1100 { // East Asian characters are square
			w += 12
		} else {
			w += 6.6
		}
	}
	return w
}

func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// lasts formats a duration with three digits.
func lasts(d time.Duration) string {
	unit, name := time.Second, "s"
	switch {
	case d < time.Millisecond:
		unit, name = time.Microsecond, "µs"
	case d < time.Second:
		unit, name = time.Millisecond, "ms"
	}
	n := float64(d) / float64(unit)
	switch {
	case n < 10 && unit != time.Microsecond:
		return fmt.Sprintf("%.2g %s", n, name)
	case n < 100 && unit == time.Second:
		return fmt.Sprintf("%.3g %s", n, name)
	}
	return fmt.Sprintf("%.0f %s", n, name)
}

// place puts the bars into lanes.
func (l *layout) place() {
	children := make(map[collector.ID][]*bar)
	rows := make(map[string]*row)
	var roots []*bar
	for _, b := range l.bars {
		if l.byID[b.Parent] == nil {
			roots = append(roots, b)
		} else {
			children[b.Parent] = append(children[b.Parent], b)
		}
	}
	placed := make(map[*bar]bool)
	var put func(b *bar, lane int)
	put = func(b *bar, lane int) {
		if placed[b] {
			return
		}
		placed[b] = true
		r := rows[b.ID.Trace]
		if r == nil {
			r = &row{title: title(b.Span)}
			rows[b.ID.Trace] = r
			l.traces = append(l.traces, r)
		}
		b.lane = r.free(b, lane)
		for _, c := range children[b.ID] {
			put(c, b.lane+1)
		}
	}
	for _, b := range roots {
		put(b, 0)
	}
	for _, b := range l.bars { // spans in a cycle of parents have no root
		put(b, 0)
	}
}

// free adds b to the first lane from that one on that has room.
func (r *row) free(b *bar, lane int) int {
	for ; ; lane++ {
		for len(r.lanes) <= lane {
			r.lanes = append(r.lanes, nil)
		}
		if !slices.ContainsFunc(r.lanes[lane], func(o *bar) bool { return b.from < o.to && o.from < b.to }) {
			r.lanes[lane] = append(r.lanes[lane], b)
			return lane
		}
	}
}

// title names a trace by its first span, and by its process if known.
func title(s collector.Span) string {
	parts := []string{shorten(s.Name, 80)}
	for _, k := range []string{"user.id", "enduser.id"} {
		if v, ok := s.Attributes[k]; ok {
			parts = append(parts, shorten(fmt.Sprint(v), 20))
			break
		}
	}
	if len(s.ID.Trace) >= 8 {
		parts = append(parts, "trace "+s.ID.Trace[:8])
	}
	return strings.Join(parts, " · ")
}

// stack sets the heights.
func (l *layout) stack() {
	y := margin + axisStep
	for _, r := range l.traces {
		r.y = y
		y += headStep
		for _, lane := range r.lanes {
			for _, b := range lane {
				b.y = y
			}
			y += laneStep
		}
	}
	l.height = y + axisStep
}
