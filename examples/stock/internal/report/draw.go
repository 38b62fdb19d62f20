package report

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The picture has a line for each way and a column for each of three figures.
const (
	pictureWidth = 960 // points
	lineHeight   = 20
	around       = 90 // total height above and below the lines
	textSize     = 10
)

var (
	keeps  = color.NRGBA{0x2b, 0x5c, 0x8a, 0xff} // a way that keeps its promises
	breaks = color.NRGBA{0xe0, 0x8a, 0x3c, 0xff} // a way with faults
	wrong  = color.NRGBA{0xb3, 0x26, 0x1e, 0xff}
	grid   = color.NRGBA{0xd0, 0xd7, 0xde, 0xff}
	letter = color.NRGBA{0x1f, 0x23, 0x28, 0xff}
)

// Draw draws the figures as an SVG.
func (r *Report) Draw(w io.Writer) error {
	rows := r.drawn()
	if len(rows) == 0 {
		return errors.New("no way was run, so there is nothing to draw")
	}
	canvas := vgsvg.New(pictureWidth, vg.Length(around+lineHeight*len(rows)))
	if err := r.drawOn(draw.New(canvas), rows); err != nil {
		return err
	}
	_, err := canvas.WriteTo(w)
	return err
}

// drawn returns the rows of the ways that were run, the last one first, because plots count from the bottom.
func (r *Report) drawn() (rows []*Row) {
	for i := range r.Ways {
		if row := &r.Ways[len(r.Ways)-1-i]; row.Skipped == "" {
			rows = append(rows, row)
		}
	}
	return rows
}

func (r *Report) drawOn(page draw.Canvas, rows []*Row) error {
	plots := [][]*plot.Plot{nil}
	for i, fill := range []func(*plot.Plot, []*Row) error{drawSpeed, drawWaits, drawWrong} {
		p := newPlot(rows, i == 0)
		if err := fill(p, rows); err != nil {
			return err
		}
		plots[0] = append(plots[0], p)
	}
	plots[0][0].Title.Text = fmt.Sprintf("%d people, %d clicks each, %d in stock; %s, %s", r.Users, r.Clicks, r.Stock, r.Database, r.redisKind())
	tiles := draw.Tiles{Rows: 1, Cols: 3, PadX: 14, PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 12}
	for i, tile := range plot.Align(plots, tiles, page)[0] {
		plots[0][i].Draw(tile)
	}
	return nil
}

func newPlot(rows []*Row, named bool) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label} {
		style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: textSize}
		style.Color = letter
	}
	p.Title.Padding = 6
	names := make([]string, len(rows))
	if named {
		for i, row := range rows {
			names[i] = row.Name
		}
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	p.X.Padding, p.X.LineStyle.Width, p.X.Tick.LineStyle.Width = 0, 0, 0
	p.X.Tick.Marker = few{}
	lines := plotter.NewGrid()
	lines.Horizontal.Width, lines.Vertical.Color = 0, grid
	p.Add(lines)
	return p
}

// ink returns the colour of a way.
func (r *Row) ink() color.Color {
	if r.Kept {
		return keeps
	}
	return breaks
}

func drawSpeed(p *plot.Plot, rows []*Row) error {
	p.X.Label.Text = "requests per second (blue: keeps its promises)"
	var most float64
	for i, row := range rows {
		most = max(most, row.PerSecond)
		if err := bar(p, i, 0, row.PerSecond, row.ink()); err != nil {
			return err
		}
		if err := note(p, row.PerSecond, i, fmt.Sprintf("%.0f", row.PerSecond), letter); err != nil {
			return err
		}
	}
	p.X.Min, p.X.Max = 0, 1.25*most
	return nil
}

// drawWaits draws a bar from p50 to p99, by their logarithms.
func drawWaits(p *plot.Plot, rows []*Row) error {
	p.X.Label.Text = "time to answer: from p50 to p99, ms"
	p.X.Tick.Marker = decades{}
	least, most := math.Inf(1), math.Inf(-1)
	for i, row := range rows {
		from, to := math.Log10(max(row.P50, 0.01)), math.Log10(max(row.P99, 0.01))
		least, most = min(least, from), max(most, to)
		if err := bar(p, i, from, max(to, from+0.02), row.ink()); err != nil {
			return err
		}
		if err := note(p, to, i, fmt.Sprintf("%.0f to %.0f", row.P50, row.P99), letter); err != nil {
			return err
		}
	}
	p.X.Min, p.X.Max = math.Floor(least), most+0.35*max(1, most-math.Floor(least))
	return nil
}

// drawWrong draws the excess orders, and notes the faults that the scripts have shown.
func drawWrong(p *plot.Plot, rows []*Row) error {
	p.X.Label.Text = "excess orders under load, and faults shown by scripts"
	var most float64 = 1
	for i, row := range rows {
		n := float64(row.Oversold + row.Duplicates)
		most = max(most, n)
		if err := bar(p, i, 0, n, wrong); err != nil {
			return err
		}
		said, ink := row.wrongs()
		if err := note(p, n, i, said, ink); err != nil {
			return err
		}
	}
	p.X.Min, p.X.Max = 0, 2*most
	return nil
}

// wrongs describes the faults of a way.
func (r *Row) wrongs() (string, color.Color) {
	said, ink := "none", color.Color(letter)
	if r.Oversold+r.Duplicates > 0 {
		said, ink = fmt.Sprintf("%d oversold, %d twice", r.Oversold, r.Duplicates), wrong
	}
	switch n := r.flaws(); {
	case n == 1:
		return said + "; 1 flaw", wrong
	case n > 1:
		return fmt.Sprintf("%s; %d flaws", said, n), wrong
	}
	return said, ink
}

// flaws counts the scripts that showed a fault.
func (r *Row) flaws() (n int) {
	for _, s := range r.Scripts {
		f := s.Facts
		if f.Oversold+f.Duplicates+f.Blocked+f.Overtaken > 0 || f.Missing > f.Recovered {
			n++
		}
	}
	return n
}

// bar draws a bar on the line i.
func bar(p *plot.Plot, i int, from, to float64, ink color.Color) error {
	if to <= from {
		return nil
	}
	const half = 0.32
	y := float64(i)
	box, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: y - half}, {X: to, Y: y - half}, {X: to, Y: y + half}, {X: from, Y: y + half}})
	if err != nil {
		return err
	}
	box.Color, box.LineStyle.Width = ink, 0
	p.Add(box)
	return nil
}

// note writes a text next to a bar.
func note(p *plot.Plot, x float64, i int, said string, ink color.Color) error {
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: float64(i)}}, Labels: []string{said}})
	if err != nil {
		return err
	}
	style := &labels.TextStyle[0]
	style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: textSize - 1}
	style.Color = ink
	style.YAlign = draw.YCenter
	labels.Offset.X = 4
	p.Add(labels)
	return nil
}

// few makes few marks on an axis, because the columns are narrow.
type few struct{}

// Ticks implements plot.Ticker.
func (few) Ticks(from, to float64) (marks []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10(to-from)))
	for (to-from)/step < 3 {
		step /= 2
	}
	for (to-from)/step > 5 {
		step *= 2
	}
	for x := 0.0; x <= to; x += step {
		if x >= from && x == math.Trunc(x) {
			marks = append(marks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'f', -1, 64)})
		}
	}
	return marks
}

// decades marks 1, 10, 100 on an axis of logarithms.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(from, to float64) (marks []plot.Tick) {
	for x := math.Ceil(from); x <= to; x++ {
		marks = append(marks, plot.Tick{Value: x, Label: strconv.FormatFloat(math.Pow(10, x), 'f', -1, 64)})
	}
	return marks
}
