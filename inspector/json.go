package inspector

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/lockmw/go/internal/doctor"
)

// An answer has the fields with which every answer in JSON begins.
type answer struct {
	Prefix string     `json:"prefix"`
	AsOf   *time.Time `json:"as_of"` // time of the data; null: no data yet
	Age    millis     `json:"age_ms"`
	Error  *problem   `json:"error,omitempty"` // why the data is not the current state
}

type locksAnswer struct {
	answer
	Complete bool    `json:"complete"` // false: the first read of all locks is still running
	Totals   *totals `json:"totals"`   // null: locks were never read
	Matched  int     `json:"matched"`
	Page     int     `json:"page"`
	Pages    int     `json:"pages"`
	Locks    []*lock `json:"locks"`
}

type trendsAnswer struct {
	answer
	Trends *trendsBody `json:"trends"` // null: Redis was never read
}

type keyAnswer struct {
	answer
	Lock    *lock       `json:"lock"`
	History []happening `json:"history"` // latest first; empty without recorded events
}

type processAnswer struct {
	answer
	Complete  bool         `json:"complete"` // as in locksAnswer
	Processes []process    `json:"processes"`
	Holds     []heldLock   `json:"holds"`
	Waits     []wantedLock `json:"waits"`
	Silence   *silence     `json:"silence"` // null unless the name is that of one process
}

type redisAnswer struct {
	answer
	Servers  []server `json:"servers"`
	Prefixes []string `json:"prefixes"`
	// Findings are the results of the doctor's checks that do not write.
	Findings []doctor.Finding `json:"findings"`
}

func (h *handler) serveJSON(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSuffix(routeOf(r.URL.Path), ".json")
	s, err := h.subject(name, r)
	if err != nil {
		status, _ := statusOf(err)
		p := &problem{Type: "lock_invalid_key", Message: err.Error()}
		if status == http.StatusBadRequest {
			p.Type = "bad_request"
		}
		h.writeJSON(w, status, answer{Prefix: h.hub.insp.Prefix(), Error: p})
		return
	}
	await(r.Context(), s)
	v := h.view(r)
	v.keyPage = "key.json"
	p := s.show(v)
	if p == nil {
		h.refuse(w, r)
		return
	}
	a := answer{Prefix: p.Prefix, Age: p.Age}
	if !p.AsOf.IsZero() {
		a.AsOf = &p.AsOf
	}
	if p.Status != http.StatusOK {
		if a.Error = p.Notice.Problem; a.Error == nil {
			a.Error = &problem{Type: "lock_unavailable", Message: p.Notice.Text}
		}
	}
	switch b := p.Body.(type) {
	case *overviewBody:
		if name == "trends" {
			h.writeJSON(w, p.Status, trendsAnswer{a, b.Trends})
			return
		}
		h.writeJSON(w, p.Status, locksAnswer{a, b.Whole, b.Totals, b.Matched, b.Query.Page, b.Pages, orEmpty(b.Locks)})
	case *keyBody:
		h.writeJSON(w, p.Status, keyAnswer{a, b.Lock, orEmpty(b.History)})
	case *processBody:
		h.writeJSON(w, p.Status, processAnswer{a, b.Whole, orEmpty(b.Processes), orEmpty(b.Holds), orEmpty(b.Waits), b.Silence})
	case *redisBody:
		h.writeJSON(w, p.Status, redisAnswer{a, orEmpty(b.Servers), orEmpty(b.Prefixes), orEmpty(b.Findings)})
	}
}

// orEmpty returns list, or an empty list for nil, which is [] in JSON instead of null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (h *handler) writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(body); err != nil { // the client has closed the connection
		h.logger.Debug("lockmw: inspector: sending an answer failed", "error", err)
	}
}
