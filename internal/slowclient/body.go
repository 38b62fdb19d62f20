package slowclient

import (
	"fmt"
	"io"
	"net/http"
)

// Body returns a body whose reads fail with the cause when the context of g has ended. An empty body is returned unchanged.
func (g *Guard) Body(of io.ReadCloser) io.ReadCloser {
	if of == nil || of == http.NoBody {
		return of
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unread = true
	return &body{of, g}
}

type body struct {
	io.ReadCloser
	guard *Guard
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.guard.beginRead(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	if ended := b.guard.endRead(err); ended != nil && err != nil && err != io.EOF { //nolint:errorlint // Readers return it as it is
		err = ended
	}
	return n, err
}

func (g *Guard) beginRead() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.look()
	if err := g.why(); err != nil {
		return err
	}
	g.reading++
	return nil
}

func (g *Guard) endRead(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading--
	if err == io.EOF { //nolint:errorlint // as above
		g.unread = false
	}
	return g.why()
}

// why returns why the body can no longer be read, nil if it can. g.mu is held.
func (g *Guard) why() error {
	if g.ended == nil {
		return nil
	}
	return fmt.Errorf("the request's body is no longer read: %w", g.ended)
}
