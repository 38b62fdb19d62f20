package redistest

import (
	"context"
	"net"
	"testing"
)

func TestCutBreaksAConnectionThatIsBeingMade(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	w := &Wire{conns: make(map[*wireConn]struct{})}
	w.dial = func(context.Context, string) (net.Conn, error) {
		w.Cut()
		return client, nil
	}
	if conn, err := w.Dial(t.Context(), "", ""); err == nil {
		t.Fatalf("got %v, which was not cut", conn)
	}
	if _, err := client.Write([]byte("PING")); err == nil {
		t.Error("the connection is open")
	}
}
