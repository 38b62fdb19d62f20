package tracing_test

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockmw/go/internal/test/exhibit"
)

// facts is what the package comment says, or what was seen, as one sentence each.
type facts map[string]bool

func (f facts) add(words ...string) { f[strings.Join(words, " ")] = true }

func (f facts) mustEqual(t *testing.T, seen facts) {
	t.Helper()
	if len(f) == 0 {
		t.Error("the package comment says nothing")
	}
	for _, fact := range slices.Sorted(maps.Keys(f)) {
		if !seen[fact] {
			t.Errorf("in the package comment, but never seen: %s", fact)
		}
	}
	for _, fact := range slices.Sorted(maps.Keys(seen)) {
		if !f[fact] {
			t.Errorf("seen, but not in the package comment: %s", fact)
		}
	}
}

// A manual is the package comment: by heading, the rows of its table, and its text.
type manual struct {
	tables map[string][]string
	text   string
}

func readManual(t *testing.T) manual {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	m := manual{tables: make(map[string][]string), text: strings.Join(strings.Fields(file.Doc.Text()), " ")}
	heading := ""
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		switch block := block.(type) {
		case *comment.Heading:
			heading = string(block.Text[0].(comment.Plain))
		case *comment.Code:
			m.tables[heading] = strings.Split(strings.TrimSpace(block.Text), "\n")
		}
	}
	return m
}

// says returns the words that a sentence of the text lists after its beginning.
func (m manual) says(t *testing.T, beginning string) []string {
	t.Helper()
	_, list, found := strings.Cut(m.text, beginning+" ")
	if !found {
		t.Fatalf("the package comment does not say %q", beginning)
	}
	list, _, _ = strings.Cut(list, ".")
	return regexp.MustCompile(`, | or `).Split(list, -1)
}

// both is how the table of attributes names the two spans.
const both = "both"

var spanOf = map[string][]string{
	both: {"acquire_lock", "hold_lock"}, "acquire": {"acquire_lock"}, "hold": {"hold_lock"},
}

// attributes reads the table of attributes: span, key and type of each, and the values of those that
// have few.
func (m manual) attributes(t *testing.T) facts {
	said, key := make(facts), ""
	for _, row := range m.tables["Span attributes"] {
		what, rest := "", strings.TrimSpace(row)
		if outcomes, ok := strings.CutPrefix(rest, "of a hold: "); ok {
			what, rest = "hold", outcomes
		} else {
			columns := regexp.MustCompile(`\s+`).Split(rest, 3)
			key, what, rest = columns[0], columns[1], columns[2]
		}
		kind := regexp.MustCompile(`^\w+`).FindString(rest)
		switch kind {
		case "string", "int", "double", "boolean":
			for _, span := range spanOf[what] {
				said.add(span, key, kind)
			}
			continue
		}
		if key == "distributed_lock.outcome" && what == both { // the next row has those of a hold
			what = "acquire"
		}
		for _, span := range spanOf[what] {
			said.add(span, key, "string")
			for value := range strings.SplitSeq(strings.TrimRight(rest, ";"), ", ") {
				said.add(span, key, "is", value)
			}
		}
	}
	return said
}

// listed are the attributes of spans whose values the table lists.
var listed = []attribute.Key{"distributed_lock.operation", "distributed_lock.mode", "distributed_lock.outcome"}

var kinds = map[attribute.Type]string{
	attribute.STRING: "string", attribute.INT64: "int", attribute.FLOAT64: "double", attribute.BOOL: "boolean",
}

func attributesSeen(spans []sdktrace.ReadOnlySpan) facts {
	seen := make(facts)
	for _, s := range spans {
		span, _, _ := strings.Cut(s.Name(), " ")
		for _, a := range s.Attributes() {
			seen.add(span, string(a.Key), kinds[a.Value.Type()])
			if slices.Contains(listed, a.Key) {
				seen.add(span, string(a.Key), "is", a.Value.AsString())
			}
		}
	}
	return seen
}

// metrics reads the table of metrics: instrument, unit and attributes of each, and its outcomes, which
// are told elsewhere.
func (m manual) metrics(t *testing.T, attributes facts) facts {
	said := make(facts)
	for _, row := range m.tables["Metrics"] {
		columns := regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(row), -1)
		if len(columns) != 3 {
			t.Fatalf("a row of %d columns: %s", len(columns), row)
		}
		name := columns[0]
		said.add(name, columns[1])
		for a := range strings.SplitSeq(columns[2], ", ") {
			said.add(name, "has", "distributed_lock."+a)
		}
	}
	for _, o := range m.says(t, "the outcome of a renewal is") {
		said.add("distributed_lock.renewals", "is", o)
	}
	for _, o := range m.says(t, "A call of package idempotency is") {
		o, _, _ = strings.Cut(o, ":")
		said.add("distributed_lock.idempotent_calls", "is", o)
	}
	for fact := range attributes {
		if o, ok := strings.CutPrefix(fact, "acquire_lock distributed_lock.outcome is "); ok {
			said.add("distributed_lock.wait.duration", "is", o)
		}
		if o, ok := strings.CutPrefix(fact, "hold_lock distributed_lock.outcome is "); ok {
			said.add("distributed_lock.hold.duration", "is", o)
		}
	}
	return said
}

func metricsSeen(metrics []metricdata.Metrics) facts {
	seen := make(facts)
	for _, m := range metrics {
		instrument := "unknown instrument"
		var sets []attribute.Set
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			instrument = "histogram"
			for _, p := range data.DataPoints {
				sets = append(sets, p.Attributes)
			}
		case metricdata.Sum[int64]:
			instrument = "up-down counter"
			if data.IsMonotonic {
				instrument = "counter"
			}
			for _, p := range data.DataPoints {
				sets = append(sets, p.Attributes)
			}
		}
		seen.add(m.Name, instrument+",", m.Unit)
		for _, set := range sets {
			for _, a := range set.ToSlice() {
				seen.add(m.Name, "has", string(a.Key))
				if a.Key == "distributed_lock.outcome" {
					seen.add(m.Name, "is", a.Value.AsString())
				}
			}
		}
	}
	return seen
}

func TestThePackageCommentSaysWhatIsReported(t *testing.T) {
	m, said := newTelemetry(t), readManual(t)
	exhibit.Run(t, "item:7", m.observer)
	m.allEnded()
	m.countersAtZero()

	spans := make(facts)
	for _, row := range said.tables["Spans"] {
		if name, ok := strings.CutSuffix(regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(row), 2)[0], " <name>"); ok {
			spans.add(name+" item", "INTERNAL")
		}
	}
	seen := make(facts)
	for _, s := range m.spans.Ended() {
		seen.add(s.Name(), strings.ToUpper(s.SpanKind().String()))
	}
	if !strings.Contains(said.text, "Both are INTERNAL") {
		t.Error("the package comment does not say of what kind the spans are")
	}
	spans.mustEqual(t, seen)

	attributes := said.attributes(t)
	attributes.mustEqual(t, attributesSeen(m.spans.Ended()))
	said.metrics(t, attributes).mustEqual(t, metricsSeen(m.collect()))
}
