package script

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
)

var oddKeys = []string{
	"user:42", "{", "}", "{}", "}{", "{x}", "x}:queue", "x:done:1", "%", "%7D", "%257D", "%zz", "\x00\r\n", "日本", "\xff\xfe",
}

// Different locks never share a key in Redis, whatever their keys and prefixes are, and all keys of
// one lock lie in one slot of a Cluster.
func FuzzKeySets(f *testing.F) {
	for i, key := range oddKeys {
		f.Add("lockmw", key, "lockmw", oddKeys[len(oddKeys)-1-i])
		f.Add("lockmw", key, "lockmw:fence", slotTag(slotOf(escape(key))))
	}
	f.Add("a", "b", "a:", "b")
	f.Add("lockmw", "inbox", "lockmw:inbox", "lockmw")
	f.Fuzz(func(t *testing.T, prefix, key, otherPrefix, otherKey string) {
		if key == "" || otherKey == "" || !isPrefix(prefix) || !isPrefix(otherPrefix) {
			t.Skip("refused before it comes here")
		}
		for _, cluster := range []bool{false, true} {
			checkKeys(t, cluster, prefix, key)
			if prefix == otherPrefix && key == otherKey {
				continue
			}
			one, other := keysOf(cluster, prefix, key), keysOf(cluster, otherPrefix, otherKey)
			for what, name := range one {
				shared := what == "fence" && prefix == otherPrefix
				for otherWhat, otherName := range other {
					if name == otherName && (!shared || otherWhat != "fence") {
						t.Errorf("the %s of %q, %q and the %s of %q, %q are both %q",
							what, prefix, key, otherWhat, otherPrefix, otherKey, name)
					}
				}
			}
		}
	})
}

// A name in Redis that reads as a lock's is that lock's.
func FuzzKeyOf(f *testing.F) {
	layout := NewLayout("lockmw", transport.Topology{})
	holderOf := func(key string) string {
		s := layout.KeySet(key)
		return s.Holder()
	}
	for _, key := range oddKeys {
		f.Add("lockmw:{" + key + "}")
		f.Add(holderOf(key))
	}
	for _, name := range []string{"lockmw:{}", "lockmw:{", "lockmw:{%7d}", "lockmw:{%}", "lockmw:fence", "lockmw:{a}}", "{a}", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key, ok := layout.Key(name)
		if ok && (key == "" || holderOf(key) != name) {
			t.Errorf("%q reads as the lock %q", name, key)
		}
	})
}

// isPrefix reports whether lockmw.WithPrefix accepts it.
func isPrefix(prefix string) bool {
	return prefix != "" && len(prefix) <= 100 &&
		!strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r > '~' || r == '{' || r == '}' })
}

// keysOf returns the Redis keys of a lock by what they are.
func keysOf(cluster bool, prefix, key string) map[string]string {
	layout := NewLayout(prefix, transport.Topology{Cluster: cluster})
	s := layout.KeySet(key)
	return map[string]string{
		"holder": s.Holder(), "queue": s.Queue(), "tickets": s.Tickets(), "queue of readers": s.ReadQueue(), "fence": s.Fence(),
		"done mark": s.Done("AbC-_.1z"), "kept place": s.Kept("a\r\n{b}"),
	}
}

func checkKeys(t *testing.T, cluster bool, prefix, key string) {
	t.Helper()
	layout := NewLayout(prefix, transport.Topology{Cluster: cluster})
	names := keysOf(cluster, prefix, key)
	want := keySlot(names["holder"])
	if got := slotOf(escape(key)); got != want {
		t.Errorf("%q lies in slot %d, not in %d", names["holder"], want, got)
	}
	for what, name := range names {
		if got := keySlot(name); got != want && (cluster || what != "fence") {
			t.Errorf("the %s %q lies in slot %d, the holder in %d", what, name, got, want)
		}
		if i := slices.IndexFunc([]byte(name), func(b byte) bool { return b < ' ' || b == 0x7f }); i >= 0 {
			t.Errorf("the %s %q has a control character", what, name)
		}
		got, ok := layout.Key(name)
		if ok != (what == "holder") || ok && got != key {
			t.Errorf("the %s %q reads as the lock %q (%t), want %q", what, name, got, ok, key)
		}
	}
}

// keySlot is the slot of a whole key as the Cluster specification defines it: the part between the
// first '{' and the next '}', unless that is empty, as a polynomial modulo x¹⁶+x¹²+x⁵+1.
func keySlot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	remainder := 0
	for _, b := range []byte(key + "\x00\x00") {
		for bit := 7; bit >= 0; bit-- {
			remainder = remainder<<1 | int(b>>bit&1)
			if remainder&(1<<16) != 0 {
				remainder ^= 1<<16 | 1<<12 | 1<<5 | 1
			}
		}
	}
	return remainder % slots
}

func TestSlotsAreThoseOfTheServer(t *testing.T) {
	rdb := redistest.Redis(t, "--cluster-enabled", "yes").NewClient(t)
	for _, key := range oddKeys {
		for _, name := range keysOf(true, "lockmw", key) {
			want, err := rdb.ClusterKeySlot(t.Context(), name).Result()
			if err != nil {
				t.Fatal(err)
			}
			if got := slotOf(escape(key)); int64(got) != want {
				t.Errorf("%q lies in slot %d, not in %d", name, want, got)
			}
		}
	}
}
