package observe

import (
	"encoding/hex"
	"strings"
)

// A TraceParent names a span in the format of W3C Trace Context, version 00:
//
//	00-<32 hex digits>-<16 hex digits>-<2 hex digits>
type TraceParent struct {
	TraceID [16]byte
	SpanID  [8]byte
	Flags   byte // FlagSampled, FlagRandom or both
}

// Flags that version 00 defines.
const (
	FlagSampled = 1 << iota
	FlagRandom
)

const traceParentLen = 55

// ParseTraceParent reads a traceparent that is stored with a lock. Any client of the server may have written it: ok is false
// unless it is well-formed. Flags that version 00 does not define are cleared, because Trace Context makes a receiver ignore
// them (https://www.w3.org/TR/trace-context/#a-traceparent-is-received).
func ParseTraceParent(s string) (p TraceParent, ok bool) {
	if len(s) != traceParentLen || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return TraceParent{}, false
	}
	var flags [1]byte
	if !decode(p.TraceID[:], s[3:35]) || !decode(p.SpanID[:], s[36:52]) || !decode(flags[:], s[53:]) || !p.valid() {
		return TraceParent{}, false
	}
	p.Flags = flags[0] & (FlagSampled | FlagRandom)
	return p, true
}

// decode reads hex digits in lower case.
func decode(dst []byte, s string) bool {
	_, err := hex.Decode(dst, []byte(s))
	return err == nil && !strings.ContainsAny(s, "ABCDEF")
}

func (p TraceParent) valid() bool { return p.TraceID != [16]byte{} && p.SpanID != [8]byte{} }

// String returns the traceparent; "" if an ID is missing.
func (p TraceParent) String() string {
	if !p.valid() {
		return ""
	}
	var b [traceParentLen]byte
	copy(b[:], "00-")
	hex.Encode(b[3:35], p.TraceID[:])
	b[35] = '-'
	hex.Encode(b[36:52], p.SpanID[:])
	b[52] = '-'
	hex.Encode(b[53:], []byte{p.Flags & (FlagSampled | FlagRandom)})
	return string(b[:])
}
