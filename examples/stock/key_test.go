package main

import (
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/lockmw/go/examples/stock/internal/crowd"
	"github.com/lockmw/go/examples/stock/internal/faults"
	"github.com/lockmw/go/examples/stock/internal/report"
	"github.com/lockmw/go/examples/stock/internal/settings"
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// recordLost is the fault that Redis loses a record. Keys in Redis promise nothing then.
const recordLost = "a fail-over loses the record"

// checkKeys checks what each policy promises, and that its weakness is seen.
func checkKeys(t *testing.T, r report.Report) {
	t.Helper()
	got := make(map[string]faults.Facts) // sums over the scripts of a way, except the loss of the record
	skipped := false
	for _, row := range r.Ways {
		if !strings.HasPrefix(row.Name, "key-") {
			continue
		}
		// Each of the 4 buyers clicks three times.
		if row.Replayed != 8 || row.Contradicting+row.Unknown+row.NotKept > 0 {
			t.Errorf("%s: %d answers repeated of 8, %d contradicting, %d unknown, %d without receipt",
				row.Name, row.Replayed, row.Contradicting, row.Unknown, row.NotKept)
		}
		var sum faults.Facts
		for _, s := range row.Scripts {
			lost := s.Name == recordLost && row.Name != "key-sqlstore"
			if bad := s.Facts.Duplicates + s.Facts.Contradicting; lost && s.Skipped == "" && bad != 2 {
				t.Errorf("%s: without its record: %+v, want a duplicate with another receipt", row.Name, s.Facts)
			}
			skipped = skipped || s.Skipped != ""
			if !lost {
				sum.Duplicates += s.Facts.Duplicates
				sum.Contradicting += s.Facts.Contradicting
				sum.Unknown += s.Facts.Unknown
				sum.NotKept += s.Facts.NotKept
				sum.Lost += s.Facts.Lost
			}
		}
		got[row.Name] = sum
	}
	want := map[string]faults.Facts{
		"key-again":    {Duplicates: 2},
		"key-refuse":   {Unknown: 3, Lost: 1},
		"key-recover":  {Duplicates: 1},
		"key-sqlstore": {NotKept: 1},
	}
	if !skipped && !maps.Equal(got, want) {
		t.Errorf("the scripts have %v, want %v", got, want)
	}
}

func TestContradictingAnswersUnderLoadAreDetected(t *testing.T) {
	ctx := t.Context()
	cfg, err := settings.Parse(strings.Fields("-users 8 -clicks 2 -stock 100 -ways key-again"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	w, err := open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	place := w.at("w")
	place.Lease = loadLease
	defer func() {
		if err := errors.Join(w.redis.Clean(place.Name), w.close()); err != nil {
			t.Error(err)
		}
	}()
	m, err := openMarket(ctx, cfg, cfg.Ways[0], place)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}()
	var tally crowd.Tally
	for range 2 { // all users click again after Redis has lost the records
		if err := tally.Drive(ctx, cfg.Plan, m.shops, m.items, loadPatience); err != nil {
			t.Fatal(err)
		}
		if err := ways.LoseLocks(ctx, m.env); err != nil {
			t.Fatal(err)
		}
	}
	var row report.Row
	row.AddLoad(&tally)
	if err := m.audit(ctx, &row); err != nil {
		t.Fatal(err)
	}
	if row.Sold != 16 || row.Duplicates != 8 || row.Replayed != 16 || row.Contradicting != 16 {
		t.Errorf("%d sold, %d duplicates, %d answers repeated, %d contradicting; want 16, 8, 16, 16",
			row.Sold, row.Duplicates, row.Replayed, row.Contradicting)
	}
}

func TestTheReportShowsTheFiguresOfKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row   report.Row
		table string
		chart string
	}{
		{report.Row{Name: "way", Replayed: 3}, "3 got the first answer again", "nothing"},
		{report.Row{Name: "way", Contradicting: 2}, "2 contradicting", "2 contradicting"},
		{report.Row{Name: "way", Unknown: 4, NotKept: 5}, "4 unknown, 5 without receipt", "nothing"},
		{withFacts(faults.Facts{Contradicting: 1}), "1 contradicting", "1 flaw"},
		{withFacts(faults.Facts{Unknown: 1, Lost: 1}), "1 unknown, 1 lost", "1 flaw"},
		{withFacts(faults.Facts{Lost: 1}), "1 lost", "1 flaw"},
		{withFacts(faults.Facts{NotKept: 1}), "1 without receipt", "1 flaw"},
	} {
		r := report.Report{Ways: []report.Row{c.row}}
		var table, chart strings.Builder
		if err := r.Write(&table, false); err != nil || !strings.Contains(table.String(), c.table) {
			t.Errorf("%+v: the table lacks %q: %v\n%s", c.row, c.table, err, &table)
		}
		if err := r.Draw(&chart); err != nil || !strings.Contains(chart.String(), ">"+c.chart+"<") {
			t.Errorf("%+v: the picture lacks %q: %v\n%s", c.row, c.chart, err, &chart)
		}
	}
}

func TestContradictingAnswersBreakAPromise(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{true, false} {
		if row := (report.Row{Kept: kept, Contradicting: 1}); row.Broken() != kept {
			t.Errorf("should it keep its promises? %t; broken: %t", kept, !kept)
		}
	}
}

// withFacts returns a row with one script.
func withFacts(f faults.Facts) report.Row {
	return report.Row{Name: "way", Scripts: []report.Scene{{Name: "script", Seen: true, Facts: f}}}
}
