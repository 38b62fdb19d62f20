package httpmw

import (
	"bufio"
	"errors"
	"net"
	"net/http"
)

// trackHidden is for writers such as the usual status recorder: it has Unwrap and leaves it to an
// http.ResponseController to find a Flush or a Hijack that it does not have. On its way the controller
// comes to a passage. What else tracked could do faster than by Write is lost.
func trackHidden(w, tracked http.ResponseWriter, p *response) http.ResponseWriter {
	if _, wraps := w.(unwrapper); !wraps {
		return tracked
	}
	flusher, flushes := tracked.(http.Flusher)
	hijacker, hijacks := tracked.(http.Hijacker)
	unwrap := hidden{passage{w, p}}
	switch {
	case flushes && (hijacks || !canHijack(w)):
		return tracked
	case flushes:
		return struct {
			http.ResponseWriter
			unwrapper
			http.Flusher
		}{tracked, unwrap, flusher}
	case hijacks:
		return struct {
			http.ResponseWriter
			unwrapper
			http.Hijacker
		}{tracked, unwrap, hijacker}
	}
	return struct {
		http.ResponseWriter
		unwrapper
	}{tracked, unwrap}
}

type unwrapper interface{ Unwrap() http.ResponseWriter }

// canHijack reports whether an http.ResponseController finds a Hijack.
func canHijack(w http.ResponseWriter) bool {
	for {
		if _, hijacks := w.(http.Hijacker); hijacks {
			return true
		}
		wrapper, wraps := w.(unwrapper)
		if !wraps {
			return false
		}
		w = wrapper.Unwrap()
	}
}

type hidden struct{ passage }

func (h hidden) Unwrap() http.ResponseWriter { return h.passage }

// A passage is what an http.ResponseController comes through on its way to w.
type passage struct {
	http.ResponseWriter
	response *response
}

func (p passage) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p passage) FlushError() error {
	if err := p.response.refused(); err != nil {
		return err
	}
	err := http.NewResponseController(p.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		p.response.begun.Store(true)
	}
	return err
}

func (p passage) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return p.response.hijack(http.NewResponseController(p.ResponseWriter).Hijack)
}
