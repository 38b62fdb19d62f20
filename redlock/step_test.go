package redlock_test

import (
	"errors"
	"testing"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

func TestCheckStepAllowsSafeSteps(t *testing.T) {
	nodes := func(names ...string) []string { return names }
	three, five := nodes("a", "b", "c"), nodes("a", "b", "c", "d", "e")
	for name, tt := range map[string]struct {
		from, to redlock.Configuration
		safe     bool
	}{
		"the same":                {redlock.Configuration{Nodes: three}, redlock.Configuration{Nodes: three}, true},
		"3 to 5":                  {redlock.Configuration{Nodes: three}, redlock.Configuration{Nodes: five}, false},
		"3 to 5 with 4":           {redlock.Configuration{Nodes: three}, redlock.Configuration{Nodes: five, Quorum: 4}, true},
		"5 with 4 to 5":           {redlock.Configuration{Nodes: five, Quorum: 4}, redlock.Configuration{Nodes: five}, true},
		"a live node is replaced": {redlock.Configuration{Nodes: three}, redlock.Configuration{Nodes: nodes("a", "b", "d")}, false},
		"one more, with 3":        {redlock.Configuration{Nodes: three}, redlock.Configuration{Nodes: nodes("a", "b", "c", "d")}, true},
		"one less again":          {redlock.Configuration{Nodes: nodes("a", "b", "c", "d")}, redlock.Configuration{Nodes: nodes("a", "b", "d")}, true},
		"a dead node is replaced": {redlock.Configuration{Nodes: nodes("a", "b"), Quorum: 2}, redlock.Configuration{Nodes: nodes("a", "b", "d")}, true},
		"all nodes replaced":      {redlock.Configuration{Nodes: three}, redlock.Configuration{Nodes: nodes("x", "y", "z")}, false},
		"none":                    {redlock.Configuration{Nodes: three}, redlock.Configuration{}, false},
		"one twice":               {redlock.Configuration{Nodes: three}, redlock.Configuration{Nodes: nodes("a", "a", "b")}, false},
		"no majority":             {redlock.Configuration{Nodes: three, Quorum: 1}, redlock.Configuration{Nodes: three}, false},
	} {
		if err := redlock.CheckStep(tt.from, tt.to); (err == nil) != tt.safe || err != nil && !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("%s: %v, safe is %t", name, err, tt.safe)
		}
		if err := redlock.CheckStep(tt.to, tt.from); (err == nil) != tt.safe {
			t.Errorf("%s, backwards: %v, safe is %t", name, err, tt.safe)
		}
	}
}

// Three nodes become five while tokens are in use, in the steps that CheckStep documents.
func TestThreeNodesBecomeFive(t *testing.T) {
	inBubble(t, 5, func(b *bubble) {
		t, all := b.T, b.nodes.Servers()
		small := locker(t, all[:3])
		_, hold := lock(t, small, "item")
		token := hold.Token()
		if err := small.CarryTokens(t.Context(), clients(t, all[3:], nil)...); err != nil {
			t.Fatal(err)
		}
		middle := locker(t, all, redlock.WithQuorum(4))
		if _, _, err := middle.TryLock(t.Context(), "item"); !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("TryLock in the next configuration: %v, want ErrBusy", err)
		}
		usertest.Unlock(t, hold)
		for _, l := range []*redlock.Locker{middle, locker(t, all)} {
			_, hold := lock(t, l, "item")
			if hold.Token() <= token {
				t.Errorf("token %d after %d", hold.Token(), token)
			}
			token = hold.Token()
			usertest.Unlock(t, hold)
		}
	})
}
