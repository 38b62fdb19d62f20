package wire_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/wire"
)

// pair returns a connection through a Wire, and its other end.
func pair(t *testing.T) (w *wire.Wire, client, server net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	w = wire.New(func(context.Context, string) (net.Conn, error) { return near, nil })
	client, err := w.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = far.Close()
	})
	return w, client, far
}

func TestDelayedAnswersAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, client, server := pair(t)
		answer := func() time.Duration {
			start := time.Now()
			go func() { _, _ = server.Write([]byte("PONG")) }()
			if _, err := client.Read(make([]byte, 4)); err != nil {
				t.Error(err)
			}
			return time.Since(start)
		}
		w.Delay(time.Second)
		if took := answer(); took != time.Second {
			t.Errorf("a delayed answer took %v", took)
		}
		w.Restore()
		if took := answer(); took != 0 {
			t.Errorf("after Restore an answer took %v", took)
		}
	})
}

func TestTheKeysOfAScriptAreKnown(t *testing.T) {
	keys, args := wire.Command{"evalsha", "sha", "2", "a", "b", "c"}.Script()
	if !slices.Equal(keys, []string{"a", "b"}) || !slices.Equal(args, []string{"c"}) {
		t.Errorf("got %q, %q", keys, args)
	}
	for _, c := range []wire.Command{{}, {"evalsha", "sha"}, {"evalsha", "sha", "3", "a"}, {"evalsha", "sha", "-1"}, {"EVAL", "s", "x"}, {"SET", "s", "1", "a"}} {
		if keys, args := c.Script(); keys != nil || args != nil {
			t.Errorf("%q: got %q, %q", c, keys, args)
		}
	}
}

func TestWatchSeesCommandsBeforeTheyAreSent(t *testing.T) {
	w, client, server := pair(t)
	var seen []wire.Command
	w.Watch(func(c wire.Command) { seen = append(seen, c) })
	const ping, set = "*1\r\n$4\r\nPING\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = client.Write([]byte(ping + set))
	}()
	if _, err := server.Read(make([]byte, len(ping))); err != nil {
		t.Fatal(err)
	}
	want := []wire.Command{{"PING"}, {"SET", "k", "v"}}
	if len(seen) != 2 || !slices.Equal(seen[0], want[0]) || !slices.Equal(seen[1], want[1]) {
		t.Errorf("saw %q", seen)
	}
	if _, err := server.Read(make([]byte, len(set))); err != nil {
		t.Fatal(err)
	}
	<-sent
}
