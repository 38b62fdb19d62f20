// Package chart draws figures of several ways as an SVG: a line for each way, and panels of bars side by side.
package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
)

// All lengths are in pixels. Pages show a picture about as wide as Width, so that letters keep their size.
const (
	Width      = 840
	margin     = 16.0
	gap        = 16.0 // between panels
	lineHeight = 21.0
	barHeight  = 13.0
	step       = 22.0 // of a line of text
)

// A Tone is the colour of a bar or a note.
type Tone string

// The tones. Good, Warn and Bad are verdicts, Plain is none. The pale ones are for what is stacked on a bar of that tone.
const (
	Plain    Tone = "plain"
	Good     Tone = "good"
	GoodPale Tone = "good pale"
	Warn     Tone = "warn"
	Bad      Tone = "bad"
	BadPale  Tone = "bad pale"
)

// A Page is a picture.
type Page struct {
	Title  string
	Legend []Mark
	Names  []string // of the lines, from top to bottom
	Margin float64  // the width that names take
	Heads  []string // of the columns
	Shares []float64
	Rows   []Row
}

// A Mark explains a tone.
type Mark struct {
	Tone Tone
	Says string
}

// A Row is panels side by side, one for each column.
type Row struct {
	Caption string
	Panels  []Panel
}

// A Panel has a scale, and a line for each name. Without a scale, it has notes only.
type Panel struct {
	Least, Most float64 // of the scale: decades if it is logarithmic
	Log         bool
	Room        float64 // to the right of the scale, for notes
	Lines       []Line
}

// A Line is what a panel shows of one name.
type Line struct {
	Bars []Bar
	Note string
	Tone Tone // of the note; "": that of other text
}

// A Bar is drawn from one value to another.
type Bar struct {
	From, To float64
	Tone     Tone
	Ends     bool // a thin line from a dot to a ring
}

// style is for both themes: the picture has a background of its own, as an image does not know that of its page.
const style = `
  .page { fill: #ffffff; stroke: #d1d9e0 }
  text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 14px; font-weight: 600 }
  .head { font-weight: 600 }
  .axis { fill: #59636e }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .note { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }
  .plain { fill: #54738f }
  .good { fill: #1a7f37 } .good.pale { fill: #86d69a }
  .warn { fill: #bf8700 }
  .bad { fill: #cf222e } .bad.pale { fill: #ff9c95 }
  text.warn { fill: #7d4e00 }
  .ends { stroke-width: 2; fill: none }
  .ends.good { stroke: #1a7f37 } .ends.bad { stroke: #cf222e }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .axis { fill: #9198a1 }
    .grid { stroke: #2a313c }
    .note { stroke: #0d1117 }
    .plain { fill: #7d9ebf }
    .good { fill: #3fb950 } .good.pale { fill: #1b5e2b }
    .warn { fill: #d29922 }
    .bad { fill: #f85149 } .bad.pale { fill: #8e2b27 }
    text.warn { fill: #e3b341 }
    .ends { fill: none }
    .ends.good { stroke: #3fb950 } .ends.bad { stroke: #f85149 }
  }
`

// Draw writes the picture.
func (p *Page) Draw(w io.Writer) error {
	var b canvas
	y := margin
	if p.Title != "" {
		y += step
		b.text("title", margin, y-6, "start", p.Title)
	}
	y = b.legend(p.Legend, y)
	left := margin + p.Margin
	widths := p.widths()
	x := left
	for i, head := range p.Heads {
		b.text("head", x, y+step-6, "start", head)
		x += widths[i] + gap
	}
	if len(p.Heads) > 0 {
		y += step
	}
	for _, row := range p.Rows {
		if row.Caption != "" {
			y += step
			b.text("axis", left, y-6, "start", row.Caption)
		}
		x, bottom := left, y
		for i, panel := range row.Panels {
			bottom = b.panel(&panel, x, y, widths[i], len(p.Names))
			x += widths[i] + gap
		}
		for i, name := range p.Names {
			b.text("name", left-8, y+lineHeight*(float64(i)+0.5)+4, "end", name)
		}
		y = bottom
	}
	height := y + margin - 6
	var page bytes.Buffer
	fmt.Fprintf(&page, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]g" width="%[1]d" height="%[2]g" role="img">`+"\n", Width, height)
	fmt.Fprintf(&page, "<style>%s</style>\n", style)
	fmt.Fprintf(&page, `<rect class="page" x="0.5" y="0.5" width="%d" height="%g" rx="6"/>`+"\n", Width-1, height-1)
	page.Write(b.Bytes())
	page.WriteString("</svg>\n")
	_, err := page.WriteTo(w)
	return err
}

// widths shares the room to the right of the names.
func (p *Page) widths() (widths []float64) {
	columns := len(p.Rows[0].Panels)
	room, all := Width-2*margin-p.Margin-gap*float64(columns-1), 0.0
	for i := range columns {
		all += p.share(i)
	}
	for i := range columns {
		widths = append(widths, room*p.share(i)/all)
	}
	return widths
}

func (p *Page) share(column int) float64 {
	if column < len(p.Shares) {
		return p.Shares[column]
	}
	return 1
}

// A canvas is the SVG without its frame.
type canvas struct{ bytes.Buffer }

// legend returns where it ends.
func (c *canvas) legend(marks []Mark, y float64) float64 {
	if len(marks) == 0 {
		return y
	}
	const letter = 6.6 // the widest that a letter is on average
	x := margin
	for _, m := range marks {
		width := 17 + letter*float64(len([]rune(m.Says))) + 14
		if x+width > Width-margin && x > margin {
			x, y = margin, y+step
		}
		fmt.Fprintf(c, `<rect class="%s" x="%s" y="%s" width="11" height="11" rx="2"/>`+"\n", m.Tone, px(x), px(y+6))
		c.text("", x+17, y+16, "start", m.Says)
		x += width
	}
	return y + step + 4
}

// panel draws one panel and returns where it ends.
func (c *canvas) panel(p *Panel, x, y, width float64, lines int) (bottom float64) {
	bottom = y + lineHeight*float64(lines)
	scaled := p.Most > p.Least
	at := func(float64) float64 { return x }
	if scaled {
		wide := width - p.Room
		at = func(value float64) float64 {
			part := (value - p.Least) / (p.Most - p.Least)
			return x + wide*min(max(part, 0), 1)
		}
		for _, t := range p.ticks() {
			fmt.Fprintf(c, `<line class="grid" x1="%[1]s" y1="%[2]s" x2="%[1]s" y2="%[3]s"/>`+"\n", px(at(t)), px(y), px(bottom))
			anchor, value := "middle", t
			if t == p.Least {
				anchor = "start"
			}
			if p.Log {
				value = math.Pow(10, t)
			}
			c.text("axis", at(t), bottom+14, anchor, Number(value))
		}
	}
	for i, line := range p.Lines {
		middle, end := y+lineHeight*(float64(i)+0.5), x
		for _, bar := range line.Bars {
			from, to := at(bar.From), at(bar.To)
			end = max(end, from, to)
			if bar.Ends {
				const radius = 3.5
				fmt.Fprintf(c, `<path class="ends %s" d="M%s %sH%s"/>`, bar.Tone, px(from), px(middle), px(max(to-radius, from)))
				fmt.Fprintf(c, `<circle class="%s" cx="%s" cy="%s" r="%g"/>`, bar.Tone, px(from), px(middle), radius)
				fmt.Fprintf(c, `<circle class="ends %s" cx="%s" cy="%s" r="%g"/>`+"\n", bar.Tone, px(to), px(middle), radius)
				continue
			}
			if to > from {
				fmt.Fprintf(c, `<rect class="%s" x="%s" y="%s" width="%s" height="%g"/>`+"\n",
					bar.Tone, px(from), px(middle-barHeight/2), px(max(to-from, 1)), barHeight)
			}
		}
		if line.Note != "" {
			if scaled {
				end += 7
			}
			c.text("note "+string(line.Tone), end, middle+4, "start", line.Note)
		}
	}
	return bottom + step
}

// ticks are the marks of a scale: a few round numbers.
func (p *Panel) ticks() (at []float64) {
	step := 1.0
	if !p.Log {
		step = math.Pow(10, math.Floor(math.Log10(p.Most-p.Least)))
		for (p.Most-p.Least)/step < 2 {
			step /= 2
		}
		for (p.Most-p.Least)/step > 3 {
			step *= 2
		}
	}
	for value := p.Least; value <= p.Most; value += step {
		at = append(at, value)
	}
	return at
}

func (c *canvas) text(class string, x, y float64, anchor, says string) {
	var escaped bytes.Buffer
	_ = xml.EscapeText(&escaped, []byte(says)) // a Buffer does not fail
	fmt.Fprintf(c, `<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`+"\n", class, px(x), px(y), anchor, &escaped)
}

func px(f float64) string { return strconv.FormatFloat(math.Round(10*f)/10, 'f', -1, 64) }

// Number is a number with commas, or a small one with two digits that count.
func Number(f float64) string {
	if f < 10 {
		return strconv.FormatFloat(f, 'g', 2, 64)
	}
	s := fmt.Sprintf("%.0f", f)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
