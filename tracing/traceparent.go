package tracing

import (
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"
)

// traceParentLen is the length of a W3C traceparent of version 00:
// 00-<32 hex digits>-<16 hex digits>-<2 hex digits>
const traceParentLen = 55

const knownFlags = trace.FlagsSampled | trace.FlagsRandom

func formatTraceParent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	traceID, spanID := sc.TraceID(), sc.SpanID()
	var b [traceParentLen]byte
	copy(b[:], "00-")
	hex.Encode(b[3:35], traceID[:])
	b[35] = '-'
	hex.Encode(b[36:52], spanID[:])
	b[52] = '-'
	hex.Encode(b[53:], []byte{byte(sc.TraceFlags() & knownFlags)})
	return string(b[:])
}

// parseTraceParent reads what is stored with a lock, which anybody with access to the server may
// have written: all but a well-formed traceparent is invalid.
func parseTraceParent(s string) trace.SpanContext {
	if len(s) != traceParentLen || s[:3] != "00-" || s[35] != '-' || s[52:54] != "-0" {
		return trace.SpanContext{}
	}
	if s[54] < '0' || s[54] > '3' { // the other flags are reserved
		return trace.SpanContext{}
	}
	traceID, err := trace.TraceIDFromHex(s[3:35])
	if err != nil {
		return trace.SpanContext{}
	}
	spanID, err := trace.SpanIDFromHex(s[36:52])
	if err != nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(s[54] - '0'), Remote: true,
	})
}
