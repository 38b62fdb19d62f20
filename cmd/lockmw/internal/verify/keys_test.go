package verify

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/wire"
)

// script returns a script with these keys and n arguments.
func script(n int, keys ...string) wire.Command {
	c := wire.Command{"evalsha", "sha", string(rune('0' + len(keys)))}
	return append(append(c, keys...), make([]string, n)...)
}

func TestKeysThatAScriptMayWriteAreNamedOnce(t *testing.T) {
	n := new(names)
	for _, step := range []struct {
		command wire.Command
		want    []string
	}{
		{wire.Command{"PING"}, nil},
		{script(9, "p:{k}", "p:fence", "p:{k}:done:1"), []string{"p:{k}", "p:fence"}}, // asks for the lock, and reads the mark
		{script(9, "p:{k}", "p:fence", "p:{k}:done:2"), nil},
		{script(3, "p:{k}", "p:{k}:done:1"), []string{"p:{k}:done:1"}}, // ends the call
		{script(3, "p:{k}", "p:{k}:done:3"), []string{"p:{k}:done:3"}}, // ends a call that never asked
		{script(9, "p:{k}", "p:{k}:done:4", "p:{k}:done:2"), []string{"p:{k}:done:2"}},
	} {
		if got := n.fresh(step.command); !slices.Equal(got, step.want) {
			t.Errorf("%q names %q, want %q", step.command, got, step.want)
		}
	}
	for i := range 3 * keptMarks {
		n.fresh(script(9, "p:{k}:done:"+string(rune(i+100))))
	}
	if kept := len(n.young) + len(n.old); kept > 2*keptMarks {
		t.Errorf("%d marks are kept", kept)
	}
}

func TestKeysAreCountedUntilTheyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeys("p")
		k.add([]string{"p:{k}", "p:{k}:done:1", "foreign", "p2:{k}"})
		if n := k.count(); n != 2 {
			t.Errorf("%d keys are counted, want 2: %v", n, k.names)
		}
		time.Sleep(2 * markLife)
		if n := k.count(); n != 1 {
			t.Errorf("%d keys are counted after the mark has expired, want 1: %v", n, k.names)
		}
	})
}
