// Package freeport finds ports for servers.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Addr returns an address of this machine that is not in use. Its port is below the range that systems give to connections
// (32768 and up on Linux). So a server that is down for a while finds its port free again, and its clients reach no other
// program. Another program may still take the port first.
func Addr(ctx context.Context) (string, error) {
	const lowest, end, tries = 10_000, 32_768, 100
	var err error
	for range tries {
		port := lowest + rand.IntN(end-lowest)
		var listener net.Listener
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return listener.Addr().String(), listener.Close()
		}
	}
	return "", fmt.Errorf("no free port from %d to %d: %w", lowest, end-1, err)
}
