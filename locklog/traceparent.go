package locklog

import "strings"

// traceID returns the trace id of a W3C traceparent of version 00:
//
//	00-<32 hex digits>-<16 hex digits>-<2 hex digits>
//
// It is stored with the lock, where anybody with access to the server may have written it: of all but a
// well-formed one the result is "".
func traceID(s string) string {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return ""
	}
	trace, span, flags := s[3:35], s[36:52], s[53:]
	if !isHex(trace) || !isHex(span) || !isHex(flags) || isZero(trace) || isZero(span) {
		return ""
	}
	return trace
}

func isHex(s string) bool  { return strings.Trim(s, "0123456789abcdef") == "" }
func isZero(s string) bool { return strings.Trim(s, "0") == "" }
