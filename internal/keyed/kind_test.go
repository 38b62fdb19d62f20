package keyed_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockmw/go/internal/keyed"
)

func TestTheKindStandsBeforeTheFirstColon(t *testing.T) {
	for key, want := range map[string]string{
		"user:42": "user", "user:42:orders": "user", "user:": "user", keyed.Join("a:b", "1"): "a%3Ab",
		"payments": "lock", "42": "lock", "": "lock", ":": "lock", ":42": "lock", "lock:1": "lock",
	} {
		if got := keyed.Kind(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}

func TestTheNumberOfKindsIsBounded(t *testing.T) {
	var kinds keyed.Kinds
	var first atomic.Int32
	var names sync.Map
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for i := range 1000 {
				name, isFirst := kinds.Name(fmt.Sprintf("%d:x", i%300))
				names.Store(name, true)
				if isFirst {
					first.Add(1)
				}
				if name, _ := kinds.Name(fmt.Sprint(i)); name != keyed.NoKind {
					t.Errorf("a key without a kind: %q", name)
				}
			}
		})
	}
	work.Wait()
	n := 0
	names.Range(func(any, any) bool { n++; return true })
	if _, ok := names.Load(keyed.Other); !ok || n != keyed.MaxKinds+1 || first.Load() != 1 {
		t.Errorf("%d names, %d calls were the first beyond them; want %d, 1", n, first.Load(), keyed.MaxKinds+1)
	}
	if name, _ := kinds.Name("new:1"); name != keyed.Other {
		t.Errorf("a kind that comes too late: %q", name)
	}
	for i := range 300 { // known ones stay
		if name, _ := kinds.Name(fmt.Sprintf("%d:y", i)); name != keyed.Other {
			if _, ok := names.Load(name); !ok || name != fmt.Sprint(i) {
				t.Errorf("%d: %q", i, name)
			}
		}
	}
}
