package withhold

import (
	"bufio"
	"errors"
	"net"
	"net/http"
)

// wrapHidden is for writers such as the usual status recorder, which has no Flush or Hijack itself: an http.ResponseController
// finds them by Unwrap, and would bypass wrapped. On its way it finds a passage. Other methods of wrapped are lost; they only
// make Write faster.
func wrapHidden(w, wrapped http.ResponseWriter, r *Response) http.ResponseWriter {
	if _, wraps := w.(unwrapper); !wraps {
		return wrapped
	}
	flusher, flushes := wrapped.(http.Flusher)
	hijacker, hijacks := wrapped.(http.Hijacker)
	unwrap := hidden{passage{w, r}}
	switch {
	case flushes && (hijacks || !CanHijack(w)):
		return wrapped
	case flushes:
		return struct {
			http.ResponseWriter
			unwrapper
			http.Flusher
		}{wrapped, unwrap, flusher}
	case hijacks:
		return struct {
			http.ResponseWriter
			unwrapper
			http.Hijacker
		}{wrapped, unwrap, hijacker}
	}
	return struct {
		http.ResponseWriter
		unwrapper
	}{wrapped, unwrap}
}

type unwrapper interface{ Unwrap() http.ResponseWriter }

// CanHijack reports whether an http.ResponseController finds a Hijack.
func CanHijack(w http.ResponseWriter) bool {
	return Contains(w, func(w http.ResponseWriter) bool {
		_, hijacks := w.(http.Hijacker)
		return hijacks
	})
}

// Contains reports whether is returns true for w or one of the writers that an http.ResponseController finds in it.
func Contains(w http.ResponseWriter, is func(http.ResponseWriter) bool) bool {
	for !is(w) {
		wrapper, wraps := w.(unwrapper)
		if !wraps {
			return false
		}
		w = wrapper.Unwrap()
	}
	return true
}

type hidden struct{ passage }

func (h hidden) Unwrap() http.ResponseWriter { return h.passage }

// A passage is what an http.ResponseController finds on its way to the writer's own methods.
type passage struct {
	http.ResponseWriter
	response *Response
}

func (p passage) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p passage) FlushError() error {
	if err := p.response.refused(); err != nil {
		return err
	}
	p.response.gate.BeginWrite()
	defer p.response.gate.EndWrite()
	err := http.NewResponseController(p.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		p.response.begun.Store(true)
	}
	return err
}

func (p passage) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return p.response.hijack(http.NewResponseController(p.ResponseWriter).Hijack)
}
