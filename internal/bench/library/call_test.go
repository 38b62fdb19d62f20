package library_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/internal/test/redistest"
)

// eachCaller runs test with every adapter for idempotent calls. bare is set for servers without a middleware.
func eachCaller(t *testing.T, test func(t *testing.T, l library.Library, bare bool)) {
	for _, l := range library.All() {
		if l.Calls != nil {
			t.Run(l.Name, func(t *testing.T) { test(t, l, l.Name == "http" || l.Name == "fiber-bare") })
		}
	}
}

func openCaller(t *testing.T, l library.Library, addr string, work library.Work) library.Caller {
	t.Helper()
	caller, err := l.Calls(library.Config{Addr: addr}, work)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caller.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return caller
}

// call returns the n-th call of a test. No other test has its ID, because fiber does not compare scopes.
func call(t *testing.T, n int) library.Call {
	t.Helper()
	id := fmt.Sprintf("%d-%x", n, sha256.Sum256([]byte(t.Name())))[:library.IDSize]
	return library.Call{Scope: t.Name(), ID: id, Body: []byte("tea")}
}

func TestARepetitionGetsTheFirstAnswer(t *testing.T) {
	eachCaller(t, func(t *testing.T, l library.Library, bare bool) {
		s := redistest.Redis(t)
		var runs atomic.Int64
		work := func(c library.Call) ([]byte, error) {
			return fmt.Appendf(nil, "%s, %s, %s, run %d", c.Scope, c.ID, c.Body, runs.Add(1)), nil
		}
		first, second := openCaller(t, l, s.Addr(), work), openCaller(t, l, s.Addr(), work)
		run := 1
		for i, tt := range []struct {
			caller library.Caller
			key    int
		}{{first, 0}, {first, 0}, {second, 0}, {second, 1}} {
			c := call(t, tt.key)
			if bare || tt.key == 1 {
				run = int(runs.Load()) + 1
			}
			want := fmt.Sprintf("%s, %s, tea, run %d", c.Scope, c.ID, run)
			if got, err := tt.caller.Call(t.Context(), c); err != nil || string(got) != want {
				t.Errorf("call %d: %q, %v; want %q", i, got, err, want)
			}
		}
	})
}

func TestAnErrorOfTheWorkReachesTheCaller(t *testing.T) {
	s := redistest.Redis(t)
	eachCaller(t, func(t *testing.T, l library.Library, _ bool) {
		caller := openCaller(t, l, s.Addr(), func(library.Call) ([]byte, error) { return nil, errors.New("sold out") })
		if got, err := caller.Call(t.Context(), call(t, 0)); err == nil {
			t.Errorf("the answer %q", got)
		}
	})
}

func TestTheServerCountsTheCommandsOfCalls(t *testing.T) {
	redisServer := redistest.Redis(t)
	s, err := server.Use(t.Context(), redisServer.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eachCaller(t, func(t *testing.T, l library.Library, bare bool) {
		wire := tap(t, redisServer.Addr())
		caller := openCaller(t, l, wire.addr, func(library.Call) ([]byte, error) { return []byte("done"), nil })
		do := func(n int) {
			for i := range 10 * n {
				if _, err := caller.Call(t.Context(), call(t, n+i/2)); err != nil { // a first call and a repetition
					t.Fatal(err)
				}
			}
		}
		do(1)
		for n := 10; ; n *= 10 { // commands may be on their way between the two counts
			sent, written := countBoth(t, s, wire, l, func() { do(n) })
			if sent == written && (sent >= 10 || bare) {
				return
			}
			if n == 1000 {
				t.Fatalf("the server counted %d commands, %d were on the wire", sent, written)
			}
		}
	})
}
