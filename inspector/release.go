package inspector

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

// mostReleased is the maximum number of holds that one confirmation releases.
const mostReleased = 1000

type releaseBody struct {
	*processBody
	Fields   url.Values // of the form; nil: no form
	Back     string     // to the page of the process
	Most     int        // maximum number of holds to release
	Done     bool
	Released int
	Ended    int      // holds that had ended before the release
	Problem  *problem // the error that ended the release early
	Lost     *problem // why the releases could not be recorded in the history
}

// serveReleaseProcess shows the holds of a silent process and asks for confirmation, or releases them after confirmation.
func (h *handler) serveReleaseProcess(w http.ResponseWriter, r *http.Request) {
	v := h.view(r)
	values, ok := h.instruction(w, r, v)
	if !ok {
		return
	}
	s, err := h.process(values)
	if err != nil || s.name == "" {
		h.writeMessage(w, http.StatusNotFound, "No such process", "The link names no process. Nothing was released.")
		return
	}
	if r.Method == http.MethodPost && !h.confirmed(w, r) {
		return
	}
	await(r.Context(), s)
	if r.Method == http.MethodPost { // it may have shown a sign of life since it was read
		now := s.feed.readNow(r.Context())
		s.now = &now
	}
	p := s.show(v)
	p.Name, p.Live = "release", ""
	known := p.Body.(*processBody)
	b := &releaseBody{processBody: known, Back: processHref(s.name), Most: mostReleased}
	p.Body = b
	switch {
	case p.failed():
	case known.Release == "": // it is alive, or not yet known to be dead
		p.Status = http.StatusConflict
	case r.Method == http.MethodPost:
		h.release(r, v, s, b)
		if b.Problem != nil {
			p.Status = http.StatusServiceUnavailable
		}
	default:
		b.Fields = h.form(w, r, values)
	}
	h.write(w, p)
}

// release releases the holds of the process that were just read.
func (h *handler) release(r *http.Request, v *view, s *processPage, b *releaseBody) {
	b.Done = true
	var taken []lockevents.Taken
	for _, e := range s.known().value.of(h.hub.all().value, s.name) {
		for i := range e.Holders {
			if e.Holders[i].Process == s.name && len(taken) < mostReleased {
				taken = append(taken, lockevents.Taken{Key: e.Key, Mode: e.Mode, Holder: e.Holders[i]})
			}
		}
	}
	released := taken[:0]
	for _, t := range taken {
		err := h.hub.insp.ForceUnlock(r.Context(), t.Key, t.Holder)
		if err != nil && !errors.Is(err, lockmw.ErrNotHeld) {
			b.Problem = v.problemOf(err)
			break
		}
		if err != nil {
			b.Ended++
			continue
		}
		released = append(released, t)
	}
	b.Released = len(released)
	h.logger.Warn("lockmw: inspector: operator released all locks of a silent process", "process", s.name, "holds", b.Released,
		"operator", h.operator(r), "client.address", r.RemoteAddr)
	b.Lost = v.problemOf(h.record(r, v, released...))
}
