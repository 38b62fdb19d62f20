package prometheus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockmw/go/internal/test/exhibit"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/tracing"
)

// A dashboard is the checked part of Grafana's JSON.
type dashboard struct {
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any
			Datasource *datasource
		}
	}
}

type datasource struct{ Type, UID string }

type panel struct {
	ID                       int
	Title, Description, Type string
	Datasource               datasource
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []target
}

type target struct {
	Datasource                datasource
	Expr, LegendFormat, RefID string
	Exemplar, Instant         bool
}

// faults lists the faults of a dashboard for metrics.
func faults(file []byte, metrics exported) (found []string) {
	var d dashboard
	if err := json.Unmarshal(file, &d); err != nil {
		return []string{err.Error()}
	}
	if d.SchemaVersion < 41 {
		found = append(found, "it has the schema of an old Grafana")
	}
	defined := make(map[string]bool)
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			found = append(found, v.Datasource.faults(v.Name)...)
			definition, _ := v.Query.(map[string]any)
			text, _ := definition["query"].(string)
			found = append(found, variableFaults(text, defined, metrics)...)
		}
		defined[v.Name] = true
	}
	used, ids := make(map[string]bool), make(map[int]bool)
	for _, name := range variable.FindAllStringSubmatch(string(file), -1) {
		used[name[1]] = true
	}
	for name := range used {
		if !defined[name] && !slices.Contains(builtIn, name) {
			found = append(found, "undefined variable "+name)
		}
	}
	for name := range defined {
		if !used[name] {
			found = append(found, "unused variable "+name)
		}
	}
	for i, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			found = append(found, fmt.Sprintf("panel %q: id %d is not unique", p.Title, p.ID))
		}
		ids[p.ID] = true
		for _, fault := range p.faults(d.Panels[:i], metrics) {
			found = append(found, fmt.Sprintf("panel %q: %s", p.Title, fault))
		}
	}
	if len(d.Panels) == 0 {
		found = append(found, "it has no panels")
	}
	return found
}

var (
	variable = regexp.MustCompile(`\$\{?(\w+)`)
	builtIn  = []string{"__range", "__rate_interval", "__all"}
)

// variableFaults checks label_values(selector, label), which only Grafana knows.
func variableFaults(query string, defined map[string]bool, metrics exported) (found []string) {
	parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(query)
	if parts == nil {
		return []string{"a variable's query is no label_values: " + query}
	}
	for _, v := range variable.FindAllStringSubmatch(query, -1) {
		if !defined[v[1]] {
			found = append(found, "a variable's query uses a later one: "+query)
		}
	}
	return append(found, metrics.faults(fmt.Sprintf("count by (%s) (%s)", parts[2], parts[1]), "")...)
}

func (d *datasource) faults(where string) []string {
	if d == nil || d.Type != "prometheus" || d.UID != "${datasource}" {
		return []string{where + ": the data source is not that of the variable"}
	}
	return nil
}

func (p *panel) faults(before []panel, metrics exported) (found []string) {
	if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" {
		found = append(found, "no title, description or unit")
	}
	g := p.GridPos
	if g.X < 0 || g.Y < 0 || g.W <= 0 || g.H <= 0 || g.X+g.W > 24 {
		found = append(found, "it is not on the grid")
	}
	for _, other := range before {
		if o := other.GridPos; g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
			found = append(found, fmt.Sprintf("it overlaps %q", other.Title))
		}
		if p.Title == other.Title {
			found = append(found, "another has the same title")
		}
	}
	found = append(found, p.Datasource.faults("panel")...)
	if len(p.Targets) == 0 {
		found = append(found, "no queries")
	}
	refs := make(map[string]bool)
	for _, q := range p.Targets {
		found = append(found, q.Datasource.faults("query "+q.RefID)...)
		if refs[q.RefID] || q.RefID == "" {
			found = append(found, "two queries are "+q.RefID)
		}
		refs[q.RefID] = true
		if strings.Contains(q.Expr, "_bucket") && p.Type != "stat" && !q.Exemplar {
			found = append(found, "no exemplars")
		}
		found = append(found, metrics.faults(q.Expr, q.LegendFormat)...)
	}
	return found
}

// exported is what Prometheus receives: the labels of each series, and their values.
type exported map[string]map[string][]string

// exportMetrics returns the metrics of an exhibit.
func exportMetrics(t *testing.T) exported {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	observer := tracing.New(
		tracing.WithTracerProvider(tracenoop.NewTracerProvider()),
		tracing.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))))
	exhibit.Run(t, "item:7", observer)
	standBy(t, observer)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	metrics := make(exported)
	for _, f := range families {
		names := []string{f.GetName()}
		if f.GetType().String() == "HISTOGRAM" {
			names = []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
		}
		for i, name := range names {
			labels := make(map[string][]string)
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
				}
				if len(names) > 1 && i == 0 {
					labels["le"] = nil
				}
			}
			metrics[name] = labels
		}
	}
	return metrics
}

// standBy is a replica that waits to lead until its context ends.
func standBy(t *testing.T, observer *lockmw.Observer) {
	const key = "lead:billing"
	locks := lockmw.NewLocal()
	usertest.Occupy(t, locks, key)
	contended, waits := usertest.OnContended(t)
	ctx, cancel := context.WithCancel(t.Context())
	var replica sync.WaitGroup
	replica.Go(func() {
		err := lockmw.Lead(ctx, locks, key, func(context.Context) error { return nil }, lockmw.WithObserver(observer), contended)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Lead returned %v", err)
		}
	})
	waits()
	cancel()
	replica.Wait()
}

func readDashboard(t *testing.T) []byte {
	file, err := os.ReadFile("../../../../tracing/grafana/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheDashboardShowsExportedMetrics(t *testing.T) {
	file, metrics := readDashboard(t), exportMetrics(t)
	for _, fault := range faults(file, metrics) {
		t.Error(fault)
	}
	const unused = "distributed_lock_hold_duration_seconds_sum"
	for name := range metrics {
		if strings.HasPrefix(name, "distributed_lock") && name != unused && !strings.Contains(string(file), name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// Each replacement breaks a copy of the dashboard.
func TestFaultsOfADashboardAreFound(t *testing.T) {
	file, metrics := readDashboard(t), exportMetrics(t)
	for old, broken := range map[string]string{
		// Metrics and labels.
		"distributed_lock_wait_duration_seconds_bucket{": "distributed_lock_wait_duration_bucket{",
		"distributed_lock_waiters{":                      "distributed_lock_waiting{",
		"distributed_lock_renewals_total{":               "distributed_lock_renewals{",
		`distributed_lock_mode=~\"$mode`:                 `lock_mode=~\"$mode`,
		`sum(distributed_lock_waiters{`:                  `sum(distributed_lock_waiters{distributed_lock_outcome=\"lost\", `,
		"sum by (distributed_lock_name)":                 "sum by (name)",
		"sum by (le)":                                    "sum by (instance)",
		`distributed_lock_outcome=\"lost\"`:              `distributed_lock_outcome=\"gone\"`,
		"lost|error":                                     "lost|failed",
		"{{distributed_lock_name}}":                      "{{distributed_lock_mode}}",
		"_count, distributed_lock_name)":                 "_count, name)",
		// Syntax.
		"histogram_quantile(": "histogram_quantil(",
		"sum by":              "sum_by",
		" or (max":            " xor (max",
		"offset":              "ofset",
		"[$__range]":          "[$__ranges]",
		`\"$name\"`:           `'$name'`,
		"$__rate_interval]))": "$__rate_interval])",
		// The rest of the file.
		`=~\"$name\"`:                    `=~\"$nane\"`,
		`"name": "datasource"`:           `"name": "source"`,
		`"uid": "${datasource}"`:         `"uid": "prometheus"`,
		`"id": 2,`:                       `"id": 1,`,
		`"x": 12,`:                       `"x": 11,`,
		`"exemplar": true`:               `"exemplar": false`,
		`"title": "Waits"`:               `"title": ""`,
		`"description": "How long locks`: `"describes": "How long locks`,
		`"unit": "ops"`:                  `"unit": ""`,
		`"schemaVersion": 41`:            `"schemaVersion": 16`,
		`"panels": [`:                    `"panel": [`,
		`"title": "Losses",`:             `"title": "Losses"`,
		`"refId": "B"`:                   `"refId": "A"`,
	} {
		copied := strings.ReplaceAll(string(file), old, broken)
		switch found := faults([]byte(copied), metrics); {
		case copied == string(file):
			t.Errorf("the dashboard does not contain %s", old)
		case len(found) == 0:
			t.Errorf("no fault is found with %s instead of %s", broken, old)
		default:
			t.Logf("%s: %s", broken, found[0])
		}
	}
}
