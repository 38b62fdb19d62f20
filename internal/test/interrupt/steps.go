// Package interrupt kills or stops a process between any two steps of a call, and judges what the repetitions of that call get.
// The calls belong to package idempotency, or to another service that promises to do work once.
//
//	// TestMain:
//	interrupt.ChildMain(open)
//
//	results := interrupt.Play(t, interrupt.Kill, func(n int) interrupt.Stage { … })
//
// A step is a command to Redis, a statement of a database, or an effect of the work. There is a point before each step and a point
// after it.
package interrupt

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
)

// Steps are the steps of the calls in a child process. All methods also work with nil, which interrupts nothing. They are safe for
// concurrent use.
type Steps struct {
	reports *reporter
	ignored atomic.Bool // no step matters

	mu      sync.Mutex
	halt    place
	passed  []string      // points, since the call began
	halting chan struct{} // closed when the process may continue; nil: it has not halted
}

// A place is where a call is interrupted: at a point that it passes for the Nth time. So a command that is sent once more on a busy
// machine moves only the places of commands. The zero place is nowhere.
type place struct {
	Point string
	Nth   int
}

func (p place) String() string { return fmt.Sprintf("%s (%d)", p.Point, p.Nth) }

// places returns the places of points that a call has passed.
func places(points []string) (all []place) {
	passed := make(map[string]int)
	for _, point := range points {
		passed[point]++
		all = append(all, place{point, passed[point]})
	}
	return all
}

// Around takes a step.
func (s *Steps) Around(step string, take func() error) error {
	s.pass("before " + step)
	err := take()
	s.pass("after " + step)
	return err
}

// pass halts if this is the point to halt at. While the process halts, no other goroutine takes a step.
func (s *Steps) pass(point string) {
	if s == nil || s.ignored.Load() {
		return
	}
	s.mu.Lock()
	s.passed = append(s.passed, point)
	if all := places(s.passed); all[len(all)-1] == s.halt {
		s.halting = make(chan struct{})
		s.reports.send(report{Halted: true})
	}
	halting := s.halting
	s.mu.Unlock()
	if halting != nil {
		<-halting
	}
}

// ignore makes all steps pass without a note.
func (s *Steps) ignore() { s.ignored.Store(true) }

// begin begins a call.
func (s *Steps) begin(halt place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halt, s.passed = halt, nil
}

// proceed ends the halt.
func (s *Steps) proceed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halting != nil {
		close(s.halting)
		s.halting = nil
	}
}

// points returns the points that the call has passed.
func (s *Steps) points() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.passed)
}

// Hook returns a hook that makes each command, or pipeline of commands, a step. Commands that only prepare a connection are none.
func (s *Steps) Hook() redis.Hook {
	return redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		name := cmds[0].Name()
		if slices.Contains(preparing, name) {
			return send()
		}
		return s.Around(name, send)
	})
}

var preparing = []string{"hello", "client", "info", "ping"}

// A reporter sends reports to the parent. It is safe for concurrent use.
type reporter struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (r *reporter) send(v any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(v) // without a parent, this process ends
}
