package httpmw

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lockmw/go/idempotency"
)

// replayedHeader marks an answer that was recorded for an earlier request.
const replayedHeader = "Idempotent-Replayed"

// alwaysKept are the headers of an answer that repetitions get, besides Content-*.
var alwaysKept = []string{"Location", "Link", "Etag", "Last-Modified", "Cache-Control"}

// neverKept are the headers of one answer only. net/http sets Content-Length for the body that it sends.
var neverKept = []string{
	"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Set-Cookie", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// keeps reports whether repetitions get a header.
func (m *idempotent) keeps(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return !slices.Contains(neverKept, name) &&
		(strings.HasPrefix(name, "Content-") || slices.Contains(alwaysKept, name) || slices.Contains(m.headers, name))
}

// answer returns the answer for the record.
func (a *recorder) answer(noBody bool) idempotency.Answer {
	kept := make(map[string][]string)
	for name, values := range a.sent {
		if a.m.keeps(name) && len(values) > 0 && !slices.Equal(values, a.before[name]) {
			kept[name] = values
		}
	}
	if noBody || a.status == http.StatusPartialContent || a.hasTrailers() || a.breaksOff() {
		return idempotency.Answer{Status: a.status, Header: kept, NoBody: true}
	}
	return idempotency.Answer{Status: a.status, Header: kept, Body: a.body}
}

// breaksOff reports whether the body is shorter than its Content-Length says, so that the client knows that it lacks the rest.
func (a *recorder) breaksOff() bool {
	return a.status != http.StatusNoContent && a.status != http.StatusNotModified && int64(len(a.body)) < a.length
}

func (a *recorder) hasTrailers() bool {
	return len(a.sent["Trailer"]) > 0 || a.hasLateTrailers()
}

// hasLateTrailers reports whether the handler has set trailers that it has not announced.
func (a *recorder) hasLateTrailers() bool {
	for name := range a.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// sendTrailers has net/http send what the handler has set after the status.
func (a *recorder) sendTrailers() {
	if a.hasLateTrailers() { // net/http would send a short body with its length, and without trailers
		_ = http.NewResponseController(a.w).Flush()
	}
	h := a.w.Header()
	for _, list := range a.sent["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values, set := a.header[name]; set {
				h[name] = values
			}
		}
	}
	for name, values := range a.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			h[name] = values
		}
	}
}

// change makes the changes to h that lead from one header to another.
func change(h, from, to http.Header) {
	for name := range from {
		if _, kept := to[name]; !kept {
			delete(h, name)
		}
	}
	for name, values := range to {
		if before, had := from[name]; !had || !slices.Equal(before, values) {
			h[name] = slices.Clone(values) // nil stays nil: net/http does not send it
		}
	}
}

// replay sends the recorded answer. If it was not kept, or the client cannot read it, the client learns of it what can be told.
func (m *idempotent) replay(w http.ResponseWriter, r *http.Request, run *idempotency.Run, answer *idempotency.Answer) {
	status := answer.Status
	if status == 0 { // of a function of Recover, or of an operator
		status = http.StatusOK
	}
	if answer.NoBody || status < 200 || status > 999 || !accepts(r.Header, answer.Header) {
		p := problemDone
		p.AnswerStatus, p.AnswerLocation = answer.Status, http.Header(answer.Header).Get("Location")
		m.refuse(w, r, &refusedError{p, &idempotency.Error{Op: "begin", Err: idempotency.ErrDone, Unfinished: run.Unfinished()}}, false)
		return
	}
	h := w.Header()
	for name, values := range answer.Header {
		if m.keeps(name) {
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
	h.Set(replayedHeader, "true")
	w.WriteHeader(status)
	if len(answer.Body) > 0 {
		_, _ = w.Write(answer.Body) //nolint:gosec // the answer of the handler; it fails only if the client has disconnected
	}
}

// accepts reports whether a client that sent the header request can read an answer with the header answer. A client without
// Accept-Encoding is taken for one that decodes nothing.
func accepts(request http.Header, answer map[string][]string) bool {
	for _, list := range answer["Content-Encoding"] {
		for coding := range strings.SplitSeq(list, ",") {
			if coding = codingOf(coding); coding != "" && coding != "identity" && !acceptsCoding(request, coding) {
				return false
			}
		}
	}
	return true
}

// codingOf returns the name of a coding as it is compared (RFC 9110, 8.4.1).
func codingOf(s string) string {
	return strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "x-")
}

func acceptsCoding(request http.Header, coding string) bool {
	byStar := false
	for _, list := range request["Accept-Encoding"] {
		for item := range strings.SplitSeq(list, ",") {
			name, params, _ := strings.Cut(item, ";")
			switch codingOf(name) {
			case coding:
				return weight(params) > 0
			case "*":
				byStar = weight(params) > 0
			}
		}
	}
	return byStar
}

// weight returns the q of an item of Accept-Encoding; 1 if it has none.
func weight(params string) float64 {
	name, value, found := strings.Cut(params, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 1
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		return 0
	}
	return q
}
