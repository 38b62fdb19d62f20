package env_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
)

func TestChildTakesLocksOfItsKind(t *testing.T) {
	s := redistest.Redis(t)
	rdb := s.NewClient(t)
	for kind, key := range map[string]string{"": "k", env.ClientMode: "k", "renaming": "renamed:k"} {
		c := redistest.StartChild(t, env.ChildSpec{Role: "holder", Addrs: []string{s.Addr()}, Prefix: "t" + kind, Kind: kind})
		c.Order(env.Order{Do: "lock", Key: "k"})
		if _, ok := <-c.Reports(); !ok {
			t.Fatalf("kind %q: no report", kind)
		}
		if n := rdb.Exists(t.Context(), "t"+kind+":{"+key+"}").Val(); n != 1 {
			t.Errorf("kind %q: %q is not locked", kind, key)
		}
	}
}

func TestAnInvalidChildFails(t *testing.T) {
	s := redistest.Redis(t)
	for name, spec := range map[string]env.ChildSpec{
		"an unknown role": {Role: "baker", Addrs: []string{s.Addr()}, Prefix: "t"},
		"an unknown kind": {Role: "holder", Addrs: []string{s.Addr()}, Prefix: "t", Kind: "unheard-of"},
		"a bad prefix":    {Role: "holder", Addrs: []string{s.Addr()}},
	} {
		c := redistest.StartChild(t, spec)
		for range c.Reports() {
			t.Errorf("%s: unexpected report", name)
		}
		if c.Err() == nil {
			t.Errorf("%s: no error", name)
		}
		c.Kill() // its failure is expected
	}
}

func TestMachineTimeMatchesTheMachinesClock(t *testing.T) {
	const exact = 100 * time.Microsecond
	before := judge.MachineNow()
	now := judge.MachineTime(time.Now())
	if after := judge.MachineNow(); now < before-exact || now > after+exact {
		t.Errorf("the machine's time is %v; its clock reads %v to %v", now, before, after)
	}
}
