// Package web runs an HTTP server.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Serve answers requests until stop is called. stop waits for running requests until its context
// ends.
func Serve(listener net.Listener, handler http.Handler) (stop func(context.Context) error) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func(ctx context.Context) error {
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // ends the remaining requests
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

// Host returns a listener's address in the form for clients on this machine.
func Host(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", tcp.Port)
	}
	return addr.String()
}
