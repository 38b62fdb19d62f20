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
	mu    sync.Mutex
	begun time.Time
	step  time.Duration
	// One value per step since begun. In waiting, -1 means that waits were not read in that step.
	waiting, losses, handOvers []int
}

func newTrend() *trend { return &trend{begun: time.Now(), step: firstStep} }

// at returns the step of an instant, after making room for it. It reports false if the instant is before the trend began. An instant in
// the future counts as now, because clocks of other machines may be ahead.
func (t *trend) at(instant time.Time) (step int, ok bool) {
	now := time.Now()
	if instant.After(now) {
		instant = now
	}
	if instant.Before(t.begun) {
		return 0, false
	}
	for now.Sub(t.begun)/t.step >= trendSteps {
		t.step *= 2
		t.waiting = halve(t.waiting, func(a, b int) int { return max(a, b) })
		t.losses, t.handOvers = halve(t.losses, sum), halve(t.handOvers, sum)
	}
	for last := int(now.Sub(t.begun) / t.step); len(t.waiting) <= last; {
		t.waiting, t.losses, t.handOvers = append(t.waiting, -1), append(t.losses, 0), append(t.handOvers, 0)
	}
	return int(instant.Sub(t.begun) / t.step), true
}

func sum(a, b int) int { return a + b }

// halve joins each two points into one.
func halve(points []int, join func(a, b int) int) []int {
	for i := range points {
		if i%2 == 0 {
			points[i/2] = points[i]
		} else {
			points[i/2] = join(points[i/2], points[i])
		}
	}
	return points[:(len(points)+1)/2]
}

// wait records the number of calls that wait now.
func (t *trend) wait(calls int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok := t.at(time.Now()); ok {
		t.waiting[i] = max(t.waiting[i], calls)
	}
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
		switch step, ok := t.at(e.At); {
		case !ok:
		case isHandOver:
			t.handOvers[step]++
		default:
			t.losses[step]++
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
	t.at(time.Now())
	b := &trendsBody{
		Since: t.begun.UTC(), Step: millisOf(t.step), Waiting: make([]*int, len(t.waiting)), Losses: slices.Clone(t.losses),
		HandOvers: slices.Clone(t.handOvers), recorded: recorded,
	}
	for i, calls := range t.waiting {
		if calls >= 0 {
			b.Waiting[i] = &calls
		}
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
