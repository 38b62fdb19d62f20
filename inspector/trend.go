package inspector

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/lockevents"
)

const (
	// trendSteps is the maximum number of points of a trend. Beyond it, each two points become one.
	trendSteps = 120
	// firstStep is the time that a point covers at first.
	firstStep = 10 * time.Second
)

// A trend counts waits, losses and hand-overs since the handler began, in bounded memory: its points cover more and more time.
type trend struct {
	mu     sync.Mutex
	begun  time.Time
	step   time.Duration // that a point covers
	points []point       // since begun
}

// A point counts what happened in one step.
type point struct {
	waiting           int // the largest number of waiting calls that was seen; -1: waits were not read
	losses, handOvers int
}

func newTrend() *trend { return &trend{begun: time.Now(), step: firstStep} }

// ago returns the point of an instant some time ago, after making room for the present; nil if that was before the trend began. An
// instant in the future counts as now, because clocks of other machines may be ahead. Only durations are compared: the time since begun
// ignores steps of the clock of this machine, which instants of events follow.
func (t *trend) ago(age time.Duration) *point {
	lasts := time.Since(t.begun)
	for lasts/t.step >= trendSteps {
		t.step *= 2
		t.points = halve(t.points)
	}
	for last := int(lasts / t.step); len(t.points) <= last; {
		t.points = append(t.points, point{waiting: -1})
	}
	if age > lasts {
		return nil
	}
	return &t.points[(lasts-max(age, 0))/t.step]
}

// halve joins each two points into one.
func halve(points []point) (half []point) {
	for two := range slices.Chunk(points, 2) {
		one := two[0]
		for _, p := range two[1:] {
			one = point{max(one.waiting, p.waiting), one.losses + p.losses, one.handOvers + p.handOvers}
		}
		half = append(half, one)
	}
	return half
}

// wait records the number of calls that wait now.
func (t *trend) wait(calls int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.ago(0)
	p.waiting = max(p.waiting, calls)
}

// count counts new events.
func (t *trend) count(events []lockevents.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range events {
		e := &events[i]
		isHandOver := e.Kind == lockevents.Acquired && e.Contended
		if e.Kind != lockevents.Lost && !isHandOver {
			continue
		}
		switch p := t.ago(time.Since(e.At)); {
		case p == nil:
		case isHandOver:
			p.handOvers++
		default:
			p.losses++
		}
	}
}

// A line is one drawn trend.
type line struct {
	Title string
	Class string // CSS class of its colour
	Now   string // "not recorded" if nothing is known
	Path  string // SVG path, in a box of trendSteps × lineHeight
}

const lineHeight = 32

// A trendsBody has all trends. An unknown value is null in JSON.
type trendsBody struct {
	Since     time.Time `json:"since"`
	Step      millis    `json:"step_ms"` // time that a point covers
	Waiting   []*int    `json:"waiting"` // largest number of waiting calls that was seen
	Losses    []int     `json:"losses"`
	HandOvers []int     `json:"hand_overs"`

	recorded bool // events exist, so losses and hand-overs are counted
}

// show returns the trends so far; recorded reports whether programs record events.
func (t *trend) show(recorded bool) *trendsBody {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ago(0)
	b := &trendsBody{Since: t.begun.UTC(), Step: millisOf(t.step), recorded: recorded}
	for _, p := range t.points {
		var waiting *int
		if p.waiting >= 0 {
			waiting = &p.waiting
		}
		b.Waiting, b.Losses, b.HandOvers = append(b.Waiting, waiting), append(b.Losses, p.losses), append(b.HandOvers, p.handOvers)
	}
	return b
}

// Lines returns the lines that a page draws.
func (b *trendsBody) Lines() []line {
	most := 0
	for _, calls := range b.Waiting {
		if calls != nil {
			most = max(most, *calls)
		}
	}
	lines := []line{{Title: "Calls waiting", Class: "contended", Now: fmt.Sprint(most, " at most"), Path: drawn(b.Waiting)}}
	add := func(title, class string, counts []int) {
		l := line{Title: title, Class: class, Now: "not recorded"}
		if b.recorded {
			points, total := make([]*int, len(counts)), 0
			for i := range counts {
				points[i] = &counts[i]
				total += counts[i]
			}
			if len(points) > 1 {
				points[len(points)-1] = nil // this step is not complete yet, so its count is too low
			}
			l.Now, l.Path = fmt.Sprint(total, " in all"), drawn(points)
		}
		lines = append(lines, l)
	}
	add("Losses", "alarm", b.Losses)
	add("Hand-overs", "held", b.HandOvers)
	return lines
}

// drawn returns the SVG path of points from the left to the right edge. A nil point is a gap.
func drawn(points []*int) string {
	most := 1
	for _, p := range points {
		if p != nil {
			most = max(most, *p)
		}
	}
	width := float64(trendSteps) / float64(max(len(points)-1, 1))
	var b strings.Builder
	pen := false
	for i, p := range points {
		if p == nil {
			pen = false
			continue
		}
		y := float64(lineHeight-2) - float64(*p)/float64(most)*(lineHeight-4)
		if !pen { // a single point is a dash
			fmt.Fprintf(&b, "M%.1f %.1fh1", min(float64(i)*width, trendSteps-1), y)
		} else {
			fmt.Fprintf(&b, "L%.1f %.1f", float64(i)*width, y)
		}
		pen = true
	}
	return b.String()
}

// trends returns the trends of a page.
func (h *hub) trends() *trendsBody {
	return h.trend.show(len(h.events.now().value.events) > 0)
}
