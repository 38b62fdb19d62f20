package redistest

import (
	"context"
	"net"
	"testing"
	"time"
)

func TestCutBreaksAConnectionThatIsBeingMade(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	var w *Wire
	w = newWire(func(context.Context, string) (net.Conn, error) {
		w.Cut()
		return client, nil
	})
	if conn, err := w.Dial(t.Context(), "", ""); err == nil {
		t.Fatalf("got %v, which was not cut", conn)
	}
	if _, err := client.Write([]byte("PING")); err == nil {
		t.Error("the connection is open")
	}
}

// A client that gives up before the answer, as it may on a busy machine, sends the command again.
func TestAFaultMeetsTheNextCommandIfTheFirstIsGivenUp(t *testing.T) {
	for kind, expect := range map[string]func(w *Wire, match ...string) *Fault{"HoldReply": (*Wire).HoldReply, "LoseReply": (*Wire).LoseReply} {
		var servers []net.Conn
		w := newWire(func(context.Context, string) (net.Conn, error) {
			client, server := net.Pipe()
			servers = append(servers, server)
			return newPipe(client), nil
		})
		f := expect(w, "PING")
		for _, answered := range []bool{false, true} {
			conn, err := w.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte("PING")); err != nil {
				t.Fatal(err)
			}
			if !answered {
				_ = conn.Close()
				continue
			}
			go func() { _, _ = servers[1].Write([]byte("PONG")) }()
			go func() { _, _ = conn.Read(make([]byte, 4)) }()
			select {
			case <-f.Caught():
			case <-time.After(time.Minute):
				t.Errorf("%s: the second command did not meet the fault", kind)
			}
			f.Deliver()
			_ = conn.Close()
		}
		for _, s := range servers {
			_ = s.Close()
		}
	}
}
