package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The picture has a column for each load and a row for each of three figures.
const (
	columnWidth = 280 // points
	labelWidth  = 130
	rowHeight   = 190
	margin      = 10
	textSize    = 10
)

var (
	dark   = color.NRGBA{0x2b, 0x5c, 0x8a, 0xff}
	light  = color.NRGBA{0x9e, 0xc4, 0xe4, 0xff}
	wrong  = color.NRGBA{0xb3, 0x26, 0x1e, 0xff}
	lines  = color.NRGBA{0xd0, 0xd7, 0xde, 0xff}
	letter = color.NRGBA{0x1f, 0x23, 0x28, 0xff}
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

// under returns the cells of a load, the last one first, because plots count from the bottom.
func (r *report) under(l load) (cells []result) {
	for _, c := range slices.Backward(r.Cells) {
		if c.load == l {
			cells = append(cells, c)
		}
	}
	return cells
}

// size returns the size of the whole picture.
func (r *report) size() (width, height vg.Length) {
	return labelWidth + columnWidth*vg.Length(len(r.loads())) + 2*margin, 3*rowHeight + 2*margin
}

// draw draws the picture on a canvas of this size.
func (r *report) draw(canvas vg.CanvasSizer) error {
	plots := make([][]*plot.Plot, 3)
	for column, l := range r.loads() {
		cells := r.under(l)
		for row, draw := range []func(*plot.Plot, []result) error{r.drawSpeed, r.drawWaits, r.drawRetries} {
			p := newPlot(cells, column == 0)
			if row == 0 {
				p.Title.Text = l.words()
			}
			if err := draw(p, cells); err != nil {
				return err
			}
			plots[row] = append(plots[row], p)
		}
	}
	page := draw.New(canvas)
	tiles := draw.Tiles{
		Rows: 3, Cols: len(plots[0]), PadX: 12, PadY: 14,
		PadTop: margin, PadBottom: margin, PadLeft: margin, PadRight: margin,
	}
	for row, tiled := range plot.Align(plots, tiles, page) {
		for column, tile := range tiled {
			plots[row][column].Draw(tile)
		}
	}
	return nil
}

// newPlot returns a plot with a line for each cell. Only the first plot of a row has names.
func newPlot(cells []result, named bool) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: textSize}
		style.Color = letter
	}
	p.Title.TextStyle.Font.Size = 12
	p.Title.Padding = 6
	names := make([]string, len(cells))
	if named {
		for i, c := range cells {
			names[i] = c.way.title
		}
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(cells))-0.4
	p.X.Padding, p.X.LineStyle.Width, p.X.Tick.LineStyle.Width = 0, 0, 0
	grid := plotter.NewGrid()
	grid.Horizontal.Width, grid.Vertical.Color = 0, lines
	p.Add(grid)
	return p
}

// drawSpeed draws stacked bars of listings and purchases per second.
func (r *report) drawSpeed(p *plot.Plot, cells []result) error {
	p.X.Label.Text = "listed (dark) and bought (light) per second"
	p.X.Min, p.X.Max = 0, 1.35*r.most(func(c *result) float64 { return c.PerSecond })
	p.X.Tick.Marker = few{}
	listed, bought := make(plotter.Values, len(cells)), make(plotter.Values, len(cells))
	for i, c := range cells {
		listed[i] = float64(c.Listed) / c.Seconds
		bought[i] = c.PerSecond - listed[i]
	}
	below, err := bars(p, listed, dark)
	if err != nil {
		return err
	}
	above, err := bars(p, bought, light)
	if err != nil {
		return err
	}
	above.StackOn(below)
	for i, c := range cells {
		says, ink := grouped(c.PerSecond), letter
		if !c.right {
			says, ink = says+" broken", wrong
		}
		if err := note(p, c.PerSecond, i, says, ink); err != nil {
			return err
		}
	}
	return nil
}

// drawWaits draws a line from the mean wait to the 99th percentile, by their logarithms. A logarithmic scale of the library
// would misplace its label.
func (r *report) drawWaits(p *plot.Plot, cells []result) error {
	p.X.Label.Text = "wait of a purchase: mean (dot) to p99 (ring), ms"
	longest := r.most(func(c *result) float64 { return max(c.WaitP99, c.WaitMean) })
	p.X.Min, p.X.Max = -1, 1.2+max(0, math.Log10(longest))
	p.X.Tick.Marker = decades{}
	for i, c := range cells {
		if c.Bought == 0 {
			if err := note(p, p.X.Min, i, "nothing bought", wrong); err != nil {
				return err
			}
			continue
		}
		mean := plotter.XY{X: math.Log10(max(c.WaitMean, 0.1)), Y: float64(i)}
		p99 := plotter.XY{X: math.Log10(max(c.WaitP99, 0.1)), Y: float64(i)}
		line, err := plotter.NewLine(plotter.XYs{mean, p99})
		if err != nil {
			return err
		}
		line.Color, line.Width = light, 2
		p.Add(plotted{line})
		for _, end := range []struct {
			at    plotter.XY
			shape draw.GlyphDrawer
		}{{mean, draw.CircleGlyph{}}, {p99, draw.RingGlyph{}}} {
			mark, err := plotter.NewScatter(plotter.XYs{end.at})
			if err != nil {
				return err
			}
			mark.GlyphStyle = draw.GlyphStyle{Color: dark, Radius: 3.5, Shape: end.shape}
			p.Add(plotted{mark})
		}
		if err := note(p, max(mean.X, p99.X), i, short(c.WaitMean)+" to "+short(c.WaitP99), letter); err != nil {
			return err
		}
	}
	return nil
}

// drawRetries draws the retries per purchase.
func (r *report) drawRetries(p *plot.Plot, cells []result) error {
	p.X.Label.Text = "retries per purchase"
	p.X.Min, p.X.Max = 0, 1.35*max(1, r.most(retries))
	p.X.Tick.Marker = few{}
	values := make(plotter.Values, len(cells))
	for i, c := range cells {
		values[i] = retries(&c)
	}
	if _, err := bars(p, values, dark); err != nil {
		return err
	}
	for i, c := range cells {
		says, ink := short(values[i]), letter
		if c.Bought == 0 {
			says, ink = "nothing bought", wrong
		}
		if err := note(p, values[i], i, says, ink); err != nil {
			return err
		}
	}
	return nil
}

func retries(c *result) float64 {
	if c.RetriesPerPurchase == nil {
		return 0
	}
	return *c.RetriesPerPurchase
}

// most returns the largest figure of all cells, so that the plots of a row share a scale.
func (r *report) most(of func(*result) float64) (most float64) {
	for _, c := range r.Cells {
		most = max(most, of(&c))
	}
	return most
}

func bars(p *plot.Plot, values plotter.Values, fill color.Color) (*plotter.BarChart, error) {
	b, err := plotter.NewBarChart(values, 11)
	if err != nil {
		return nil, err
	}
	b.Horizontal, b.Color, b.Width = true, fill, 11
	b.LineStyle.Width = 0
	p.Add(b)
	return b, nil
}

// note writes a text to the right of a value.
func note(p *plot.Plot, value float64, line int, says string, ink color.Color) error {
	l, err := plotter.NewLabels(plotter.XYLabels{
		XYs: plotter.XYs{{X: value, Y: float64(line)}}, Labels: []string{says},
	})
	if err != nil {
		return err
	}
	style := p.X.Tick.Label // a copy
	style.Color, style.XAlign, style.YAlign = ink, text.XLeft, text.YCenter
	l.TextStyle = []text.Style{style}
	l.Offset = vg.Point{X: 6}
	p.Add(plotted{l})
	return nil
}

// A plotted draws without reserving room, so that all plots of a row have the same width.
type plotted struct{ plot.Plotter }

// A few shows few numbers on an axis, because they are long, and none at its right end, where it would take room from the plot.
type few struct{}

func (few) Ticks(least, most float64) (ticks []plot.Tick) {
	for _, t := range (plot.DefaultTicks{}).Ticks(least, most) {
		if !t.IsMinor() && t.Value < most*0.85 {
			ticks = append(ticks, plot.Tick{Value: t.Value, Label: grouped(t.Value)})
		}
	}
	return ticks
}

// A decades shows powers of ten on an axis of logarithms.
type decades struct{}

func (decades) Ticks(least, most float64) (ticks []plot.Tick) {
	for value := math.Ceil(least); value < most-0.4; value++ {
		ticks = append(ticks, plot.Tick{Value: value, Label: grouped(math.Pow10(int(value)))})
	}
	return ticks
}

// short formats a number with two or three significant digits.
func short(f float64) string {
	if f >= 10 {
		return grouped(f)
	}
	return strconv.FormatFloat(f, 'g', 2, 64)
}

// grouped formats a whole number with commas, or a small number with decimals.
func grouped(f float64) string {
	if f < 10 {
		return strconv.FormatFloat(f, 'g', 2, 64)
	}
	s := fmt.Sprintf("%.0f", f)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
