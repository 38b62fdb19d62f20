package main

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/go/internal/test/redistest"
)

// A bad Redis breaks a promise, and the verdict names it.
func TestVerifyFindsWhatIsWrongWithAServer(t *testing.T) {
	// Chance shows some faults: the more locks, the sooner. For the others, a busy server would only be slow, which excuses it.
	const all, some = "1", "0.2"
	for name, test := range map[string]struct {
		server func(t *testing.T) (addr string)
		share  string
		want   []string // symptoms, at least one of which the output has
	}{
		"expiry does nothing":        {withoutExpiry, some, []string{"a lock did not end with its lease"}},
		"answers come twice":         {answeringTwice, all, []string{"tokens fell", "two holders at the same time", "a hold vanished", "an unexpected answer"}},
		"scripts are interleaved":    {interleaving, all, []string{"two holders at the same time", "tokens fell", "a hold vanished", "an unexpected answer"}},
		"it refuses semaphores":      {refusing(":permitqueue"), some, []string{"an unexpected answer"}},
		"two masters at one address": {activeActive, all, []string{"two holders at the same time", "tokens fell", "a hold vanished", "several servers at one address"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// On a busy machine some seconds have too few faults to show what is wrong.
			args := []string{"verify", "--redis", test.server(t), "--yes", "--for", "8s", "--lease", "500ms", "--share", test.share, "--processes", "3"}
			var r result
			for range 5 { // a machine that stands still excuses the server
				r = call{args: args}.run(t.Context())
				t.Log(r.out)
				if slices.ContainsFunc(test.want, func(symptom string) bool { return strings.Contains(r.out, symptom) }) {
					r.want(t, statusFailed, "\nbroken: ")
					return
				}
			}
			t.Errorf("the output has none of %q: %s", test.want, r.err)
		})
	}
}

// A server that starts again from an old snapshot has lost the locks of its last seconds.
func TestVerifyFindsLostWrites(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	if err := s.NewClient(t).Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	restart := func() {
		s.Kill()
		s.Restart(t)
	}
	var out strings.Builder
	io := console{in: &trigger{do: restart}, out: &out, err: t.Output(), env: func(string) string { return "" }}
	status := run(t.Context(), io, []string{"verify", "--redis", s.Addr(), "--yes", "--for", "2s", "--lease", "1s", "--share", "0.3", "--failover"})
	result{status: status, out: out.String()}.want(t, statusFailed, "broken: ", "lost writes after a restart or fail-over (", "20 of 20 locks were lost")
	t.Log(out.String())
}

// A trigger is the input of an operator who does something, and then presses Enter.
type trigger struct{ do func() }

func (i *trigger) Read(b []byte) (int, error) {
	i.do()
	b[0] = '\n'
	return 1, nil
}

func withoutExpiry(t *testing.T) string {
	s := redistest.Mini(t)
	s.Mini.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command != "PEXPIRE" {
			return false
		}
		c.WriteInt(1)
		return true
	})
	return s.Addr()
}

// refusing refuses scripts with keys that contain part.
func refusing(part string) func(t *testing.T) string {
	return func(t *testing.T) string {
		s := redistest.Mini(t)
		s.Mini.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
			if command != "EVALSHA" && command != "EVAL" || !slices.ContainsFunc(args, func(arg string) bool { return strings.HasSuffix(arg, part) }) {
				return false
			}
			c.WriteError("ERR this script is not allowed")
			return true
		})
		return s.Addr()
	}
}

// interleaving runs scripts side by side.
func interleaving(t *testing.T) string {
	s := redistest.Mini(t)
	s.Interleave()
	return s.Addr()
}

// activeActive spreads connections over two servers that do not know each other.
func activeActive(t *testing.T) string {
	both := []string{redistest.Redis(t).Addr(), redistest.Redis(t).Addr()}
	var n atomic.Int64
	return relay(t, func() string { return both[n.Add(1)%2] }, nil)
}

// answeringTwice repeats some answers of scripts just before the next answer, which is then taken for the answer of a later command.
func answeringTwice(t *testing.T) string {
	addr := redistest.Mini(t).Addr()
	return relay(t, func() string { return addr }, func() func([]byte) []byte {
		var last []byte
		n := 0
		return func(answer []byte) []byte {
			before := last
			if last = nil; len(answer) > 10 && strings.ContainsRune(":$*", rune(answer[0])) {
				if n++; n%3 == 0 {
					last = answer
				}
			}
			return slices.Concat(before, answer)
		}
	})
}

// relay passes connections on to the server that choose names. alter makes a function that changes the answers of a connection; it
// may be nil.
func relay(t *testing.T, choose func() string, alter func() func([]byte) []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(client, choose(), alter)
		}
	}()
	return listener.Addr().String()
}

func serve(client net.Conn, addr string, alter func() func([]byte) []byte) {
	defer client.Close()
	upstream, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer upstream.Close()
	go func() {
		_, _ = io.Copy(upstream, client)
		_ = upstream.Close()
	}()
	if alter == nil {
		_, _ = io.Copy(client, upstream)
		return
	}
	change, b := alter(), make([]byte, 64<<10)
	for {
		n, err := upstream.Read(b)
		if err != nil {
			return
		}
		if _, err := client.Write(change(bytes.Clone(b[:n]))); err != nil {
			return
		}
	}
}
