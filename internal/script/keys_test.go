package script

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/transport"
)

func TestSlotIsThatOfTheClusterSpecification(t *testing.T) {
	if got := slotOf("123456789"); got != 0x31C3%slots {
		t.Errorf("slot of 123456789 is %d, want %d", got, 0x31C3%slots)
	}
	for _, slot := range []int{0, 1, 5460, 12739, slots - 1} {
		if got := slotOf(slotTag(slot)); got != slot {
			t.Errorf("the tag of slot %d lies in slot %d", slot, got)
		}
	}
}

func TestKeysOfALockShareASlot(t *testing.T) {
	layout := NewLayout("lockmw", transport.Topology{Cluster: true})
	tag := func(key string) string {
		_, rest, _ := strings.Cut(key, "{")
		tag, _, _ := strings.Cut(rest, "}")
		return tag
	}
	for _, key := range []string{"user:42", "{user}:42", "a}b{c", "%7D", "\x00\r\n", "日本"} {
		n := layout.KeySet(key)
		want := slotOf(tag(n.Holder()))
		for _, name := range []string{n.Queue(), n.Tickets(), n.ReadQueue(), n.Done("id"), n.Kept("p}lace"), n.Fence()} {
			if got := slotOf(tag(name)); got != want {
				t.Errorf("key %q: %s lies in slot %d, the holder in %d", key, name, got, want)
			}
		}
	}
}

func TestKeySetsDoNotCollide(t *testing.T) {
	layout := NewLayout("lockmw", transport.Topology{})
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.OneOf(
			rapid.StringOfN(rapid.SampledFrom([]rune("a:{}%25\x00\n ")), 1, -1, -1),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, -1), func(b []byte) string { return string(b) }),
		)
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		ka, kb := layout.KeySet(a), layout.KeySet(b)
		if (a == b) != (ka.Holder() == kb.Holder()) {
			t.Fatalf("%q and %q are kept at %q and %q", a, b, ka.Holder(), kb.Holder())
		}
		if back, ok := layout.Key(ka.Holder()); !ok || back != a {
			t.Fatalf("%q is kept at %q, which reads %q", a, ka.Holder(), back)
		}
		if _, ok := layout.Key(ka.Queue()); ok {
			t.Fatalf("the queue of %q reads like a lock", a)
		}
		for _, redisKey := range []string{ka.Holder(), ka.Queue()} {
			if back, ok := layout.KeyOf(redisKey); !ok || back != a {
				t.Fatalf("%q is kept at %q, which shows the key %q", a, redisKey, back)
			}
		}
	})
}
