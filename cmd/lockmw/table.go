package main

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A lockTable prints rows in columns. On a terminal it cuts off long keys and holders to fit the width. Otherwise it prints whole
// cells, and a long cell shifts the rest of its own row only.
type lockTable struct {
	out   io.Writer
	width int        // of the terminal; 0: no terminal
	every int        // how many rows are printed together; 0: all
	added int        // rows
	rows  [][]string // not yet printed
}

// newTable returns a table that prints its header in front of the first row.
func newTable(out io.Writer, header ...string) *lockTable {
	return &lockTable{out: out, rows: [][]string{header}}
}

// listing returns a table for the terminal whose length is unknown. It prints some rows at a time.
func (c *command) listing(header ...string) *lockTable {
	t := newTable(c.out, header...)
	t.width, t.every = c.io.terminalWidth(), 200
	return t
}

// Columns whose cells may be long.
const (
	keyColumn    = 0
	holderColumn = 2
)

// widestCell is the largest width to which cells are padded without a terminal.
const widestCell = 60

// add adds a row. It prints the rows so far if there are enough.
func (t *lockTable) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = clean(cell)
	}
	t.rows = append(t.rows, cells)
	if t.added++; t.every > 0 && t.added%t.every == 0 {
		t.flush()
	}
}

// flush prints the rows so far. Without any row it prints nothing.
func (t *lockTable) flush() {
	if t.added == 0 {
		return
	}
	widths := t.widths()
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			if t.width > 0 {
				cell = ansi.Truncate(cell, widths[i], "…")
			}
			gap := max(widths[i]-ansi.StringWidth(cell), 0) + 2
			printf(&line, "%s%s", cell, strings.Repeat(" ", gap))
		}
		text := strings.TrimRight(line.String(), " ")
		if t.width > 0 {
			text = ansi.Truncate(text, t.width, "…")
		}
		printf(t.out, "%s\n", text)
	}
	t.rows = nil
}

// widths returns the width of each column.
func (t *lockTable) widths() []int {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(cell))
			if t.width == 0 {
				widths[i] = min(widths[i], widestCell)
			}
		}
	}
	if t.width == 0 || len(widths) <= holderColumn {
		return widths
	}
	room := t.width
	for i, width := range widths {
		if i > 0 {
			room -= 2
		}
		if i != keyColumn && i != holderColumn {
			room -= width
		}
	}
	widths[keyColumn], widths[holderColumn] = share(max(room, 2), widths[keyColumn], widths[holderColumn])
	return widths
}

// share divides room between two columns of widths a and b: each gets half, or whatever the other leaves.
func share(room, a, b int) (forA, forB int) {
	half := room / 2
	switch {
	case a+b <= room:
		return a, b
	case a <= half:
		return a, room - a
	case b <= half:
		return room - b, b
	}
	return room - half, half
}
