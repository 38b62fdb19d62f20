package inspector

import (
	"encoding/json"
	"net/http"
	"strings"
)

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
	if b, ok := p.Body.(*overviewBody); ok && name == "trends" {
		p.Body = trendsAnswer{b.answer, b.Trends}
	}
	h.writeJSON(w, p.Status, p.Body)
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
