package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/integration/collector"
)

// style works in both themes. The picture has its own background, because an image does not know that of its page.
const style = `
  .page { fill: #ffffff; stroke: #d1d9e0 }
  text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .head { font-weight: 600; font-size: 13px; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }
  .axis { fill: #59636e }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .wait { fill: #ffc069; stroke: #bc6c00 }
  .hold { fill: #8fc7ff; stroke: #0969da }
  .other { fill: #e6eaef; stroke: #9aa4af }
  .failed { stroke: #d1242f; stroke-width: 2 }
  .link { stroke: #8250df; stroke-width: 1.5; fill: none }
  .tip { fill: #8250df }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .head { stroke: #0d1117 }
    .axis { fill: #9198a1 }
    .grid { stroke: #2a313c }
    .wait { fill: #7d4e00; stroke: #d29922 }
    .hold { fill: #0c4a8f; stroke: #4493f8 }
    .other { fill: #2a313c; stroke: #656c76 }
    .failed { stroke: #f85149 }
    .link { stroke: #c297ff }
    .tip { fill: #c297ff }
  }
`

// draw returns the picture of the spans. It depends only on them.
func draw(spans []collector.Span) ([]byte, error) {
	l, err := arrange(spans)
	if err != nil {
		return nil, err
	}
	p := &picture{layout: l}
	p.open()
	p.axis()
	for _, b := range l.bars { // below all text, so that no line crosses a label
		p.links(b)
	}
	for _, r := range l.traces {
		p.text("head", margin, r.y+headStep-9, "start", r.title)
	}
	for _, b := range l.bars {
		p.bar(b)
	}
	p.legend()
	p.WriteString("</svg>\n")
	return p.Bytes(), nil
}

// A picture is the SVG so far.
type picture struct {
	bytes.Buffer

	*layout
}

func (p *picture) open() {
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g" role="img">`+"\n",
		width, p.height)
	p.WriteString("<title>Spans over time: who waits for a lock, who holds it, and whom the wait is for</title>\n")
	fmt.Fprintf(p, "<style>%s</style>\n", style)
	p.WriteString(`<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="4.5" markerHeight="4.5" orient="auto">` +
		`<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>` + "\n")
	fmt.Fprintf(p, `<rect class="page" x="0.5" y="0.5" width="%g" height="%g" rx="6"/>`+"\n", width-1, p.height-1)
}

// axis draws the time axis at the top, and a line through the picture at each of its ticks.
func (p *picture) axis() {
	step := tick(p.length)
	for d := time.Duration(0); d >= 0 && d <= p.length; d += step {
		x := p.x(p.start.Add(d))
		fmt.Fprintf(p, `<line class="grid" x1="%[1]s" y1="%[2]s" x2="%[1]s" y2="%[3]s"/>`+"\n",
			px(x), px(margin+14), px(p.height-axisStep))
		anchor := "middle"
		switch {
		case d == 0:
			anchor = "start"
		case x > width-margin-25:
			anchor = "end"
		}
		p.text("axis", x, margin+8, anchor, at(d, step))
	}
}

// tick returns the distance of at most 12 ticks: 1, 2 or 5 times a power of ten.
func tick(length time.Duration) time.Duration {
	const most = 12
	for unit := int64(1); ; unit *= 10 {
		for _, n := range []int64{1, 2, 5} {
			if step := time.Duration(n * unit); length/step < most {
				return step
			}
		}
	}
}

// at shows a time on the axis, in the unit of the ticks.
func at(d, step time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case step >= time.Second:
		return fmt.Sprintf("%d s", d/time.Second)
	case step >= time.Millisecond:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	case step >= time.Microsecond:
		return fmt.Sprintf("%d µs", d/time.Microsecond)
	}
	return fmt.Sprintf("%d ns", d)
}

// bar draws a span. Its tooltip shows what the label leaves out.
func (p *picture) bar(b *bar) {
	class := "other"
	switch {
	case isWait(b):
		class = "wait"
	case strings.HasPrefix(b.Name, "hold_lock"):
		class = "hold"
	}
	if b.Status.Code == "error" {
		class += " failed"
	}
	about := fmt.Sprintf("%s, %s", b.Name, lasts(b.End.Sub(b.Start)))
	if o, ok := b.Attributes["distributed_lock.outcome"]; ok {
		about += fmt.Sprintf(", %v", o)
	}
	fmt.Fprintf(p, `<g><title>%s</title><rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="2"/>`,
		escape(about), class, px(b.x), px(b.y), px(b.w), px(barHeight))
	p.text("label", b.labelX, b.y+barHeight-5, b.anchor, b.label)
	p.Truncate(p.Len() - 1)
	p.WriteString("</g>\n")
}

func isWait(b *bar) bool { return strings.HasPrefix(b.Name, "acquire_lock") }

// links draws an arrow from a wait to each span that it links to, if that span is in the picture.
func (p *picture) links(b *bar) {
	if !isWait(b) {
		return
	}
	for _, l := range b.Links {
		to := p.byID[l.ID]
		if to == nil {
			continue
		}
		// From the beginning of the wait to the end of the holder's bar, so that a bar with ends of both kinds shows them
		// apart. Arrows lead from edge to edge.
		x1, x2 := b.x+min(8, b.w/2), to.x+to.w-min(8, to.w/2)
		y1, y2 := b.y, to.y+barHeight
		bend1, bend2 := (y2-y1)/2, (y1-y2)/2
		switch {
		case b.y < to.y:
			y1, y2 = b.y+barHeight, to.y
			bend1, bend2 = (y2-y1)/2, (y1-y2)/2
		case b.y == to.y: // an arc above both
			y2 = to.y
			bend1, bend2 = -laneStep/2, -laneStep/2
		}
		fmt.Fprintf(p, `<path class="link" marker-end="url(#tip)" d="M%s %sC%s %s %s %s %s %s"/>`+"\n",
			px(x1), px(y1), px(x1), px(y1+bend1), px(x2), px(y2+bend2), px(x2), px(y2))
	}
}

func (p *picture) legend() {
	x, y := margin, p.height-axisStep/2-5
	for _, c := range []struct{ class, text string }{
		{"wait", "waits (acquire_lock)"}, {"hold", "holds (hold_lock)"}, {"other", "other spans"},
	} {
		fmt.Fprintf(p, `<rect class="%s" x="%s" y="%s" width="14" height="10" rx="2"/>`+"\n", c.class, px(x), px(y))
		p.text("label", x+19, y+9, "start", c.text)
		x += 19 + textWidth(c.text) + 16
	}
	fmt.Fprintf(p, `<path class="link" marker-end="url(#tip)" d="M%s %sh22"/>`+"\n", px(x), px(y+5))
	p.text("label", x+28, y+9, "start", "link to the span of the holder")
}

func (p *picture) text(class string, x, y float64, anchor, text string) {
	fmt.Fprintf(p, `<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`+"\n", class, px(x), px(y), anchor, escape(text))
}

func px(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", f), "0"), ".")
}

// escape also replaces characters that XML does not allow.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
