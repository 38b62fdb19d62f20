package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// Write prints the report: the figures under load, the faults that scripts reproduce, and the verdict.
func (r *Report) Write(w io.Writer, asJSON bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d people click %d times each, %d clicks at a time, on two processes; %s.\n%s, %s.\n\n",
		r.Users, r.Clicks, r.AtOnce, r.supply(), r.Database, r.Redis)
	if err := r.writeLoad(&b); err != nil {
		return err
	}
	b.WriteString("\nFaults, reproduced by scripts:\n\n")
	if err := r.writeScripts(&b); err != nil {
		return err
	}
	b.WriteString("\n")
	r.writeVerdict(&b)
	if asJSON {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) supply() string {
	if r.Items == 1 {
		return fmt.Sprintf("one item, %d in stock", r.Stock)
	}
	return fmt.Sprintf("%d items, %d of each in stock", r.Items, r.Stock)
}

func (r *Report) writeLoad(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "way\t\tsold\toversold\tduplicates\trequests/s\tp50\tp99\tretries")
	for i := range r.Ways {
		row := &r.Ways[i]
		if row.Skipped != "" {
			_, _ = fmt.Fprintf(t, "%s\t%s%s–  skipped: %s\n", row.Name, row.Does, strings.Repeat("\t–", 6)+"\t", row.Skipped)
			continue
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%.0f\t%.1f ms\t%.1f ms\t%d%s\n", row.Name, row.Does,
			row.Sold, row.Oversold, row.Duplicates, math.Round(row.PerSecond), row.P50, row.P99, row.Retries, row.remark())
	}
	return t.Flush()
}

// remark lists further irregularities, and repeated answers.
func (r *Row) remark() string {
	var words []string
	for _, n := range []struct {
		n    int
		word string
	}{
		{r.Unsold, "unsold"}, {r.LostOrders, "lost"}, {r.Busy, "told to retry"},
		{r.Contradicting, "contradicting"}, {r.Unknown, "unknown"}, {r.NotKept, "without receipt"},
		{r.Replayed, "got the first answer again"},
	} {
		if n.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n.n, n.word))
		}
	}
	if r.Failed != "" {
		words = append(words, r.Failed)
	}
	if len(words) == 0 {
		return ""
	}
	return "  " + strings.Join(words, ", ")
}

func (r *Report) writeScripts(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range r.Ways {
		name := r.Ways[i].Name
		for _, s := range r.Ways[i].Scripts {
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", name, s.Name, s.outcome())
			name = ""
		}
	}
	return t.Flush()
}

func (s *Scene) outcome() string {
	switch {
	case s.Skipped != "":
		return "skipped: " + s.Skipped
	case s.Failed != "":
		return "failed: " + s.Failed
	case !s.Seen:
		return s.Facts.String() + " (not as expected)"
	}
	return s.Facts.String()
}

func (r *Report) writeVerdict(w io.Writer) {
	var broken, skipped []string
	for i := range r.Ways {
		if r.Ways[i].Broken() {
			broken = append(broken, r.Ways[i].Name)
		}
		if r.Ways[i].Skipped != "" {
			skipped = append(skipped, r.Ways[i].Name)
		}
	}
	if len(skipped) > 0 {
		_, _ = fmt.Fprintf(w, "Not run: %s.\n", strings.Join(skipped, ", "))
	}
	if len(skipped) == len(r.Ways) {
		return
	}
	if len(broken) > 0 {
		_, _ = fmt.Fprintf(w, "Promises broken by: %s.\n", strings.Join(broken, ", "))
		return
	}
	_, _ = fmt.Fprintln(w, "Every way that ran behaved as expected. Under load, the ways that should keep their promises oversold nothing and took no order twice.")
}
