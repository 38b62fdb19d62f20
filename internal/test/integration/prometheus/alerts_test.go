package prometheus_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

var alertQuery = regexp.MustCompile(`(?m)^ +expr: (.+)$`)

// alertFaults lists the faults of the alert rules in a file.
func alertFaults(rules string, metrics exported) (found []string) {
	queries := alertQuery.FindAllStringSubmatch(rules, -1)
	if len(queries) == 0 || len(queries) != strings.Count(rules, "- alert:") {
		found = append(found, "an alert has no query")
	}
	for _, q := range queries {
		found = append(found, metrics.faults(q[1], "")...)
		if strings.HasPrefix(q[1], "sum by (distributed_lock_name) (increase(") && !strings.Contains(q[1], "last_over_time(") {
			found = append(found, "a count that begins at 1 has no increase: "+q[1])
		}
	}
	return found
}

func TestAlertsUseExportedMetrics(t *testing.T) {
	file, err := os.ReadFile("../../../../tracing/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, metrics := string(file), exportMetrics(t)
	for _, fault := range alertFaults(rules, metrics) {
		t.Error(fault)
	}
	for old, broken := range map[string]string{
		"        expr:": "        query:",
		"distributed_lock_wait_duration_seconds_count": "distributed_lock_wait_seconds_count",
		"distributed_lock_renewals_total":              "distributed_lock_renewals",
		`distributed_lock_outcome="lost"`:              `distributed_lock_outcome="gone"`,
		"(distributed_lock_name, le)":                  "(distributed_lock_name)",
		"unless":                                       "except",
		"last_over_time":                               "max_over_time",
	} {
		copied := strings.ReplaceAll(rules, old, broken)
		if copied == rules || len(alertFaults(copied, metrics)) == 0 {
			t.Errorf("no fault is found with %s instead of %s", broken, old)
		}
	}
}

// tests.yaml has to contain the queries of the dashboard for counts that may begin at 1, so that promtool runs them.
func TestTheQueriesForNewCountsAreTested(t *testing.T) {
	tests, err := os.ReadFile("../../../../tracing/prometheus/tests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(readDashboard(t), &d); err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("$name", ".*", "$mode", ".*", "$__rate_interval", "4m")
	n := 0
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			if !strings.Contains(q.Expr, " offset $__rate_interval") {
				continue
			}
			if n++; !strings.Contains(string(tests), values.Replace(q.Expr)) {
				t.Errorf("no test runs the query of %q", p.Title)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d panels have such queries, want 2", n)
	}
}
