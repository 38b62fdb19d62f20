package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/lockmw/go/internal/test/integration/collector"
)

// TestTracesOfTwoProcessesInJaeger needs a Jaeger 2. JAEGER_QUERY_URL is the address of its query API, such as
// http://localhost:16686. JAEGER_OTLP is where it accepts OTLP/gRPC, such as localhost:4317.
func TestTracesOfTwoProcessesInJaeger(t *testing.T) {
	query, otlp := os.Getenv("JAEGER_QUERY_URL"), os.Getenv("JAEGER_OTLP")
	if query == "" && otlp == "" {
		t.Skip("needs a Jaeger: set JAEGER_QUERY_URL and JAEGER_OTLP")
	}
	if query == "" || otlp == "" {
		t.Fatal("set both JAEGER_QUERY_URL and JAEGER_OTLP, or neither")
	}
	ctx := patience(t)
	metrics, err := collector.Start(ctx) // Jaeger accepts no metrics
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Stop()
	defer http.DefaultClient.CloseIdleConnections()
	s := perform(t, ctx, otlp, metrics.Addr(), "")
	var spans []collector.Span
	var text strings.Builder
	for trace, n := range s.traces {
		found, body, err := jaegerTrace(ctx, query, trace, n)
		if err != nil {
			t.Fatalf("trace %s: %v", trace, err)
		}
		spans = append(spans, found...)
		text.Write(body)
	}
	s.checkTraces(spans, func(key string) string { return key })
	s.checkKeys(text.String(), spans)
}

// jaegerTrace queries Jaeger for a trace until it has that many spans: Jaeger stores spans some time after their arrival. It
// also returns the raw answer.
func jaegerTrace(ctx context.Context, query, trace string, spans int) ([]collector.Span, []byte, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		found, body, err := queryJaeger(ctx, query, trace)
		if err != nil || len(found) >= spans {
			return found, body, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("%w: %d spans, want %d", ctx.Err(), len(found), spans)
		}
	}
}

// queryJaeger returns Jaeger's spans of a trace: none if the trace is unknown. Without raw_traces Jaeger may correct clocks
// that it considers skewed; newer versions call it rawTraces.
func queryJaeger(ctx context.Context, query, trace string) ([]collector.Span, []byte, error) {
	url := strings.TrimSuffix(query, "/") + "/api/v3/traces/" + trace + "?raw_traces=true&rawTraces=true"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, nil, nil
	case resp.StatusCode != http.StatusOK:
		return nil, nil, fmt.Errorf("%s: %s", resp.Status, body)
	}
	spans, err := parseJaeger(body)
	return spans, body, err
}

// parseJaeger parses an answer of Jaeger's API v3: {"result": …} with OTLP's JSON in it. That is Protobuf's JSON except for
// ids, which are in hex digits instead of base64.
func parseJaeger(body []byte) ([]collector.Span, error) {
	var answer struct {
		Result map[string]any `json:"result"`
	}
	numbers := json.NewDecoder(bytes.NewReader(body))
	numbers.UseNumber() // nanoseconds do not fit a float64
	if err := numbers.Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Result == nil {
		return nil, fmt.Errorf("no result in %s", body)
	}
	if err := recodeIDs(answer.Result); err != nil {
		return nil, err
	}
	result, err := json.Marshal(answer.Result)
	if err != nil {
		return nil, err
	}
	var data tracepb.TracesData
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(result, &data); err != nil {
		return nil, err
	}
	return collector.Spans(data.GetResourceSpans()), nil
}

// recodeIDs converts all ids in v from hex digits to base64.
func recodeIDs(v any) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := recodeIDs(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, e := range v {
			text, ok := e.(string)
			if !ok || k != "traceId" && k != "spanId" && k != "parentSpanId" {
				if err := recodeIDs(e); err != nil {
					return err
				}
				continue
			}
			id, err := hex.DecodeString(text)
			if err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
			v[k] = base64.StdEncoding.EncodeToString(id)
		}
	}
	return nil
}

// jaegerAnswer follows Jaeger's snapshots of its API v3 and OTLP's JSON: integers of 64 bits are strings, enumerations are
// numbers, and zero values are left out.
const jaegerAnswer = `{
  "result": {
    "resourceSpans": [
      {
        "resource": {"attributes": [{"key": "service.instance.id", "value": {"stringValue": "process 1"}}]},
        "scopeSpans": [
          {
            "scope": {"name": "github.com/lockmw/go/tracing", "version": "v1.2.3"},
            "spans": [
              {
                "traceId": "0af7651916cd43dd8448eb211c80319c",
                "spanId": "b7ad6b7169203331",
                "parentSpanId": "00f067aa0ba902b7",
                "flags": 257,
                "name": "acquire_lock item",
                "kind": 1,
                "startTimeUnixNano": "1763777777123456789",
                "endTimeUnixNano": "1763777777123457790",
                "attributes": [
                  {"key": "distributed_lock.key", "value": {"stringValue": "item:7"}},
                  {"key": "distributed_lock.fencing_token", "value": {"intValue": "9007199254740993"}},
                  {"key": "distributed_lock.lease.duration", "value": {"doubleValue": 30}},
                  {"key": "distributed_lock.contended", "value": {"boolValue": true}}
                ],
                "links": [
                  {"traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "53995c3f42cd8ad8", "flags": 769}
                ],
                "status": {"code": 2, "message": "lock_timeout"}
              }
            ]
          }
        ]
      },
      {
        "resource": {},
        "scopeSpans": [
          {
            "scope": {},
            "spans": [
              {
                "traceId": "0af7651916cd43dd8448eb211c80319c",
                "spanId": "00f067aa0ba902b7",
                "parentSpanId": "",
                "name": "call",
                "kind": 1,
                "startTimeUnixNano": "1763777777123456000",
                "endTimeUnixNano": "1763777777123458000",
                "status": {}
              }
            ]
          }
        ]
      }
    ]
  }
}`

func TestJaegersAnswerIsRead(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	queries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries++
		switch {
		case r.URL.Path != "/api/v3/traces/"+trace:
			http.Error(w, r.URL.Path, http.StatusTeapot)
		case queries == 1: // not stored yet
			http.Error(w, `{"error": {"httpCode": 404, "message": "No traces found"}}`, http.StatusNotFound)
		default:
			_, _ = io.WriteString(w, jaegerAnswer)
		}
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	got, body, err := jaegerTrace(patience(t), server.URL+"/", trace, 2)
	if err != nil {
		t.Fatal(err)
	}
	at := func(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }
	parent := collector.ID{Trace: trace, Span: "00f067aa0ba902b7"}
	want := []collector.Span{
		{
			Resource: map[string]any{"service.instance.id": "process 1"},
			Scope:    collector.Scope{Name: "github.com/lockmw/go/tracing", Version: "v1.2.3"},
			ID:       collector.ID{Trace: trace, Span: "b7ad6b7169203331"},
			Parent:   parent,
			Name:     "acquire_lock item", Kind: "internal",
			Start: at(1763777777123456789), End: at(1763777777123457790),
			Attributes: map[string]any{
				"distributed_lock.key":            "item:7",
				"distributed_lock.fencing_token":  int64(9007199254740993),
				"distributed_lock.lease.duration": 30.0,
				"distributed_lock.contended":      true,
			},
			Links: []collector.Link{{
				ID:         collector.ID{Trace: "4bf92f3577b34da6a3ce929d0e0e4736", Span: "53995c3f42cd8ad8"},
				Attributes: map[string]any{},
			}},
			Status: collector.Status{Code: "error", Message: "lock_timeout"},
		},
		{
			Resource: map[string]any{}, ID: parent, Name: "call", Kind: "internal",
			Start: at(1763777777123456000), End: at(1763777777123458000),
			Attributes: map[string]any{}, Status: collector.Status{Code: "unset"},
		},
	}
	if !reflect.DeepEqual(got, want) || string(body) != jaegerAnswer {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

func TestJaegersErrorsAreErrors(t *testing.T) {
	for _, answer := range []string{
		``, `{}`, `{"error": {"httpCode": 500}}`, `{"result": {"resourceSpans": 7}}`,
		strings.Replace(jaegerAnswer, "b7ad6b7169203331", "no id", 1),
	} {
		if spans, err := parseJaeger([]byte(answer)); err == nil {
			t.Errorf("%q is %v", answer, spans)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no storage", http.StatusInternalServerError)
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if _, _, err := jaegerTrace(patience(t), server.URL, "1", 1); err == nil || !strings.Contains(err.Error(), "no storage") {
		t.Errorf("an error of the server: %v", err)
	}
}
