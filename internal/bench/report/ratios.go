package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// compared are the figures whose ratios are shown.
var compared = []struct{ title, name string }{{"p50", P50}, {"ops/s", OpsPerS}, {"redis µs/op", RedisCPU}}

// Ratios writes the figures of all libraries relative to one of them, the base: the medians over the rounds, and their range. The
// base of a workload is the first one of bases that was measured in it. Libraries of a round are measured one right after the other,
// so a ratio changes less than a figure.
func Ratios(w io.Writer, all []Figures, bases []string) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "workload\tlibrary / base")
	for _, c := range compared {
		fmt.Fprintf(t, "\t%s\trange", c.title)
	}
	fmt.Fprintln(t)
	for _, f := range all {
		base, ok := baseOf(f.Workload, all, bases)
		if !ok || f.Err != nil || base.Library == f.Library {
			continue
		}
		cells := make([]string, len(compared))
		for i, c := range compared {
			cells[i] = quotients(f, base, c.name)
		}
		if slices.ContainsFunc(cells, func(cell string) bool { return cell != noQuotient }) {
			fmt.Fprintf(t, "%s\t%s / %s\t%s\n", f.Workload, f.Library, base.Library, strings.Join(cells, "\t"))
		}
	}
	return write(w, t, &b)
}

// noQuotient is the cells of a figure that the libraries do not have.
const noQuotient = "–\t–"

func baseOf(workload string, all []Figures, bases []string) (Figures, bool) {
	for _, base := range bases {
		for _, f := range all {
			if f.Workload == workload && f.Library == base && f.Err == nil {
				return f, true
			}
		}
	}
	return Figures{}, false
}

// quotients returns the median and the range of the quotients of a figure, as two cells.
func quotients(f, base Figures, name string) string {
	var list []float64
	for i := range min(len(f.Rounds), len(base.Rounds)) {
		a, ok := f.Rounds[i][name]
		if b := base.Rounds[i][name]; ok && b > 0 {
			list = append(list, a/b)
		}
	}
	if len(list) == 0 {
		return noQuotient
	}
	slices.Sort(list)
	n := len(list)
	return fmt.Sprintf("%.2f\t%.2f to %.2f", (list[(n-1)/2]+list[n/2])/2, list[0], list[n-1])
}
