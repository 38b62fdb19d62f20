package engine

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
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
	e := &Engine{cfg: DefaultConfig(), cluster: true, fence: "lockmw:fence"}
	tag := func(key string) string {
		_, rest, _ := strings.Cut(key, "{")
		tag, _, _ := strings.Cut(rest, "}")
		return tag
	}
	for _, key := range []string{"user:42", "{user}:42", "a}b{c", "%7D", "\x00\r\n", "日本"} {
		n := e.nameOf(key)
		want := slotOf(tag(n.holder))
		for _, name := range []string{n.queue(), n.tickets(), n.done("id"), n.fence.(string)} {
			if got := slotOf(tag(name)); got != want {
				t.Errorf("key %q: %s lies in slot %d, the holder in %d", key, name, got, want)
			}
		}
	}
}

func TestNamesDoNotCollide(t *testing.T) {
	e := &Engine{cfg: DefaultConfig()}
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.OneOf(
			rapid.StringOfN(rapid.SampledFrom([]rune("a:{}%25\x00\n ")), 1, -1, -1),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, -1), func(b []byte) string { return string(b) }),
		)
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		na, nb := e.nameOf(a), e.nameOf(b)
		if (a == b) != (na.holder == nb.holder) {
			t.Fatalf("%q and %q are kept at %q and %q", a, b, na.holder, nb.holder)
		}
		if back, ok := keyOf(e.cfg.Prefix, na.holder); !ok || back != a {
			t.Fatalf("%q is kept at %q, which reads %q", a, na.holder, back)
		}
		if _, ok := keyOf(e.cfg.Prefix, na.queue()); ok {
			t.Fatalf("the queue of %q reads like a lock", a)
		}
	})
}
