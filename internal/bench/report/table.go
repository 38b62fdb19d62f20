package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// columns are the figures with a column in the table; the others follow them.
var columns = []struct{ title, name string }{
	{"ops/s", OpsPerS}, {"p50 µs", P50}, {"p99 µs", P99}, {"max µs", Longest}, {"cmds/op", CmdsPer},
	{"Jain", Jain}, {"redis µs/op", RedisCPU}, {"allocs/op", Allocs},
}

// Table writes the figures, a row for each workload and library.
func Table(w io.Writer, all []Figures) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	row(t, append([]string{"workload", "library"}, titles()...), "")
	last := ""
	for _, f := range all {
		if last != "" && f.Workload != last {
			row(t, make([]string, 2+len(columns)), "")
		}
		last = f.Workload
		cells := []string{f.Workload, f.Library}
		for _, c := range columns {
			cells = append(cells, cell(f.Values, c.name))
		}
		row(t, cells, rest(f))
	}
	return write(w, t, &b)
}

// write completes t and copies its output without the spaces at the ends of lines.
func write(w io.Writer, t *tabwriter.Writer, written *bytes.Buffer) error {
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(written.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func titles() []string {
	var list []string
	for _, c := range columns {
		list = append(list, c.title)
	}
	return list
}

// row ends cells with tabs, as the alignment requires, and appends remarks.
func row(w io.Writer, cells []string, remarks string) {
	fmt.Fprintf(w, "%s\t%s\n", strings.Join(cells, "\t"), remarks)
}

func cell(values map[string]float64, name string) string {
	v, ok := values[name]
	if !ok {
		return "–"
	}
	return digits(v)
}

// digits formats a value with about three digits.
func digits(v float64) string {
	switch {
	case v >= 100 || v == float64(int64(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// rest returns the figures without a column.
func rest(f Figures) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.Values)) {
		shown := name == AllCmds || name == Bytes || name == Scripts
		for _, c := range columns {
			shown = shown || c.name == name
		}
		if !shown {
			list = append(list, name+" "+digits(f.Values[name]))
		}
	}
	if f.Err != nil {
		list = append(list, "FAILED: "+f.Err.Error())
	}
	if len(list) == 0 {
		return ""
	}
	return "  " + strings.Join(list, ", ")
}

// Goals writes the outcomes of the goals.
func Goals(w io.Writer, outcomes []Outcome) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "workload\tlockmw\tgoal\tmeasured\t")
	for _, o := range outcomes {
		bound := "≤ "
		if o.Goal.AtLeast {
			bound = "≥ "
		}
		measured := "–"
		if o.State != NotMeasured {
			measured = digits(o.Measured)
		}
		fmt.Fprintf(t, "%s\t%s\t%s%s\t%s\t%s\n", o.Goal.Workload, o.Goal.What, bound, strconv.FormatFloat(o.Goal.Limit, 'f', -1, 64), measured, o.State)
	}
	return write(w, t, &b)
}
