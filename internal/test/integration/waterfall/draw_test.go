package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/integration/collector"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ms(n int) time.Time { return noon.Add(time.Duration(n) * time.Millisecond) }

func id(trace, n int) collector.ID {
	return collector.ID{Trace: fmt.Sprintf("%032x", trace), Span: fmt.Sprintf("%016x", n)}
}

// contention is two traces: b waits for a, whose lock was free.
func contention() []collector.Span {
	root := func(trace, n int, name string, from, to int) collector.Span {
		return collector.Span{ID: id(trace, n), Name: name, Start: ms(from), End: ms(to)}
	}
	child := func(trace, n int, name string, from, to int) collector.Span {
		s := root(trace, n, name, from, to)
		s.Parent = id(trace, 1)
		return s
	}
	hold := child(2, 3, "hold_lock item", 500, 1000)
	hold.Start = hold.Start.Add(time.Microsecond)
	wait := child(2, 2, "acquire_lock item", 100, 500)
	wait.Links = []collector.Link{{ID: id(1, 2)}, {ID: id(9, 9)}} // the latter is not in the picture
	a := root(1, 1, "GET /a", 0, 500)
	a.Attributes = map[string]any{"user.id": "ann"}
	return []collector.Span{
		a, child(1, 2, "acquire_lock item", 0, 1), child(1, 3, "hold_lock item", 1, 500),
		root(2, 1, "GET /b", 100, 1000), wait, hold,
	}
}

// An element is an element of the picture.
type element struct {
	XMLName xml.Name
	Class   string    `xml:"class,attr"`
	X       string    `xml:"x,attr"`
	Y       string    `xml:"y,attr"`
	Width   string    `xml:"width,attr"`
	Height  string    `xml:"height,attr"`
	Anchor  string    `xml:"text-anchor,attr"`
	D       string    `xml:"d,attr"`
	Text    string    `xml:",chardata"`
	Parts   []element `xml:",any"`
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A drawn is a bar in the picture.
type drawn struct {
	about, class, label string
	x, y, w, h          float64
	from, to            float64 // with the label
}

// read checks that the picture is well-formed, and returns its bars and arrows.
func read(t *testing.T, picture []byte) (page element, bars []drawn, arrows []element) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
	}
	if err := xml.Unmarshal(picture, &page); err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Parts {
		switch {
		case e.XMLName.Local == "g":
			bars = append(bars, readBar(t, e))
		case e.Class == "link" && !strings.HasSuffix(e.D, "h22"): // not the arrow of the legend
			arrows = append(arrows, e)
		}
	}
	return page, bars, arrows
}

func readBar(t *testing.T, g element) drawn {
	t.Helper()
	title, rect, text := g.Parts[0], g.Parts[1], g.Parts[2]
	b := drawn{
		about: title.Text, class: rect.Class, label: text.Text,
		x: number(t, rect.X), y: number(t, rect.Y), w: number(t, rect.Width), h: number(t, rect.Height),
	}
	from := number(t, text.X)
	if text.Anchor == "end" {
		from -= textWidth(b.label)
	}
	b.from, b.to = min(b.x, from), max(b.x+b.w, from+textWidth(b.label))
	return b
}

func mustDraw(t *testing.T, spans []collector.Span) []byte {
	t.Helper()
	picture, err := draw(spans)
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

func TestBarsAreInProportion(t *testing.T) {
	page, bars, _ := read(t, mustDraw(t, contention()))
	if page.Width != "840" || page.XMLName.Space != "http://www.w3.org/2000/svg" {
		t.Errorf("a %v of width %s", page.XMLName, page.Width)
	}
	want := []struct {
		about, class string
		from, to     float64 // milliseconds
	}{
		{"GET /a, 500 ms", "other", 0, 500},
		{"acquire_lock item, 1 ms", "wait", 0, 1},
		{"hold_lock item, 499 ms", "hold", 1, 500},
		{"GET /b, 900 ms", "other", 100, 1000},
		{"acquire_lock item, 400 ms", "wait", 100, 500},
		{"hold_lock item, 500 ms", "hold", 500, 1000},
	}
	if len(bars) != len(want) {
		t.Fatalf("%d bars, want %d: %v", len(bars), len(want), bars)
	}
	const pixels = (width - 2*margin) / 1000 // per millisecond
	for i, w := range want {
		b := bars[i]
		if b.about != w.about || b.class != w.class {
			t.Errorf("bar %d is %q of class %q, want %q of %q", i, b.about, b.class, w.about, w.class)
		}
		x, length := margin+w.from*pixels, max((w.to-w.from)*pixels, thinnest)
		if math.Abs(b.x-x) > 0.02 || math.Abs(b.w-length) > 0.02 {
			t.Errorf("%s: from %g, %g long, want %g, %g", w.about, b.x, b.w, x, length)
		}
	}
	if bars[4].y != bars[5].y {
		t.Error("a wait and its hold are not in one lane")
	}
	if got := page.Parts; !slices.ContainsFunc(got, func(e element) bool { return e.Class == "head" && e.Text == "GET /a · ann · trace 00000000" }) {
		t.Errorf("no heading of the first trace in %v", got)
	}
}

func TestAnArrowLeadsFromTheWaitToTheHolder(t *testing.T) {
	_, bars, arrows := read(t, mustDraw(t, contention()))
	if len(arrows) != 1 {
		t.Fatalf("%d arrows, want 1", len(arrows))
	}
	var x1, y1, x2, y2, c1, d1, c2, d2 float64
	if _, err := fmt.Sscanf(arrows[0].D, "M%f %fC%f %f %f %f %f %f", &x1, &y1, &c1, &d1, &c2, &d2, &x2, &y2); err != nil {
		t.Fatalf("%s: %v", arrows[0].D, err)
	}
	holder, waiter := bars[1], bars[4]
	if x1 < waiter.x || x1 > waiter.x+waiter.w || y1 != waiter.y {
		t.Errorf("%s does not begin at the wait %+v", arrows[0].D, waiter)
	}
	if x2 < holder.x || x2 > holder.x+holder.w || y2 != holder.y+holder.h {
		t.Errorf("%s does not end at the holder %+v", arrows[0].D, holder)
	}
}

func TestFailuresAreMarked(t *testing.T) {
	spans := contention()
	spans[4].Status.Code = "error"
	spans[4].Attributes = map[string]any{"distributed_lock.outcome": "timeout"}
	_, bars, _ := read(t, mustDraw(t, spans))
	if b := bars[4]; b.class != "wait failed" || b.about != "acquire_lock item, 400 ms, timeout" {
		t.Errorf("the failed wait is %+v", b)
	}
}

func TestNamesAreEscaped(t *testing.T) {
	name := "<script>&\"'\x00\xff</script>"
	_, bars, _ := read(t, mustDraw(t, []collector.Span{{ID: id(1, 1), Name: name, Start: ms(0), End: ms(5)}}))
	if want := "<script>&\"'\uFFFD\uFFFD</script>"; len(bars) != 1 || bars[0].label != want+" 5 ms" || bars[0].about != want+", 5 ms" {
		t.Errorf("bars are %+v", bars)
	}
}

func TestInvalidSpansAreErrors(t *testing.T) {
	if _, err := draw(nil); !errors.Is(err, errNoSpans) {
		t.Errorf("no spans: %v, want %v", err, errNoSpans)
	}
	if _, err := draw([]collector.Span{{Name: "a", Start: ms(1), End: ms(0)}}); err == nil {
		t.Error("a span that ends before it starts is drawn")
	}
}

func TestThePictureDependsOnlyOnTheSpans(t *testing.T) {
	spans := contention()
	want := mustDraw(t, spans)
	for range 20 {
		rand.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
		if got := mustDraw(t, append(spans, spans[0])); !bytes.Equal(got, want) { // exported twice
			t.Fatalf("in another order:\n%s\nwant\n%s", got, want)
		}
	}
}

// Spans of any shape: without length, with missing or cyclic parents, with long names.
func TestBarsNeverOverlap(t *testing.T) {
	names := []string{"acquire_lock a", "hold_lock a", "work", strings.Repeat("long ", 30), strings.Repeat("長", 50), ""}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		var spans []collector.Span
		for i := range 1 + r.IntN(40) {
			start := r.IntN(1000)
			trace := r.IntN(3)
			s := collector.Span{
				ID: id(trace, i), Name: names[r.IntN(len(names))], Start: ms(start), End: ms(start + r.IntN(3)*r.IntN(500)),
				Links: []collector.Link{{ID: id(r.IntN(3), r.IntN(40))}},
			}
			if r.IntN(4) > 0 {
				s.Parent = id(trace, r.IntN(40))
			}
			spans = append(spans, s)
		}
		_, bars, _ := read(t, mustDraw(t, spans))
		if len(bars) != len(spans) {
			t.Fatalf("seed %d: %d bars, want %d", seed, len(bars), len(spans))
		}
		const rounding = 0.02
		for i, b := range bars {
			if b.from < margin-rounding || b.to > width-margin+rounding {
				t.Errorf("seed %d: %+v leaves the page", seed, b)
			}
			for _, o := range bars[:i] {
				if b.y == o.y && b.from < o.to-rounding && o.from < b.to-rounding {
					t.Errorf("seed %d: %+v overlaps %+v", seed, b, o)
				} else if b.y != o.y && math.Abs(b.y-o.y) < barHeight {
					t.Errorf("seed %d: lanes of %+v and %+v overlap", seed, b, o)
				}
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		time.Microsecond:        100 * time.Nanosecond,
		900 * time.Millisecond:  100 * time.Millisecond,
		1300 * time.Millisecond: 200 * time.Millisecond,
		time.Minute:             10 * time.Second,
		math.MaxInt64:           1e18,
	} {
		if got := tick(length); got != want {
			t.Errorf("ticks of %v are %v, want %v", length, got, want)
		}
	}
	for _, c := range []struct {
		at, step time.Duration
		want     string
	}{
		{0, 1, "0"}, {1200 * time.Millisecond, 200 * time.Millisecond, "1200 ms"},
		{20 * time.Second, 10 * time.Second, "20 s"}, {5 * time.Microsecond, time.Microsecond, "5 µs"}, {7, 1, "7 ns"},
	} {
		if got := at(c.at, c.step); got != c.want {
			t.Errorf("%v is shown as %s, want %s", c.at, got, c.want)
		}
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 µs", 724309: "724 µs", 8219427: "8.2 ms", 302 * time.Millisecond: "302 ms",
		1340 * time.Millisecond: "1.3 s", 12340 * time.Millisecond: "12.3 s", 200 * time.Second: "200 s",
	} {
		if got := lasts(d); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
}
