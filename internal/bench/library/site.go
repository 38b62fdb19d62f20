package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// The headers of a request: whose key it is, and the key.
const (
	scopeHeader = "X-User"
	keyHeader   = "Idempotency-Key"
)

// A site is a web server in this process, and a client of it. Their connections are TCP on the loopback interface, because
// middleware depends on deadlines. The client is the same for all servers, and keeps its connections.
type site struct {
	url      string
	client   *http.Client
	shutdown func(context.Context) error
	served   chan error
}

// openSite starts a server with serve, which returns after shutdown.
func openSite(serve func(net.Listener) error, shutdown func(context.Context) error) (*site, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{
		url:      "http://" + listener.Addr().String() + "/orders",
		client:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}},
		shutdown: shutdown, served: make(chan error, 1),
	}
	go func() { s.served <- serve(listener) }()
	return s, nil
}

// Call implements Caller.
func (s *site) Call(ctx context.Context, c Call) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(c.Body))
	if err != nil {
		return nil, err
	}
	r.Header.Set(scopeHeader, c.Scope)
	r.Header.Set(keyHeader, c.ID)
	r.Header.Set("Content-Type", "text/plain")
	w, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer w.Body.Close()
	answer, err := io.ReadAll(w.Body)
	if err == nil && w.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", w.Status, answer)
	}
	return answer, err
}

// Close implements Caller.
func (s *site) Close() error {
	s.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.shutdown(ctx)
	if served := <-s.served; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	return err
}
