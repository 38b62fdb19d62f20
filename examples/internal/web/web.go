// Package web serves HTTP until it is stopped.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Serve answers requests until the returned function is called, which waits for those that are
// under way as long as its context allows.
func Serve(listener net.Listener, handler http.Handler) (stop func(context.Context) error) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func(ctx context.Context) error {
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // ends the requests that took longer
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

// Host names a listener's address for this machine.
func Host(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return addr.String()
}
