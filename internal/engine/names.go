package engine

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// A name is where a lock lives in Redis. All its keys share one hash tag.
type name struct {
	holder string
	fence  any // the fencing counter: a string, as an argument of a command
}

// nameOf returns the keys of a lock.
func (e *Engine) nameOf(key string) name {
	tag := escape(key)
	base := e.cfg.Prefix + ":{" + tag + "}"
	fence := e.fence
	if e.cluster { // not after e.fence: that may be the prefix of other locks
		fence = e.cfg.Prefix + ":{" + slotTag(slotOf(tag)) + "}:fence"
	}
	return name{holder: base, fence: fence}
}

func (n *name) queue() string         { return n.holder + ":queue" }
func (n *name) tickets() string       { return n.holder + ":tickets" }
func (n *name) readers() string       { return n.holder + ":readqueue" }
func (n *name) done(id string) string { return n.holder + ":done:" + id }

// kept is where the place of a ticket is kept whose caller is away.
func (n *name) kept(ticket string) string { return n.holder + ":kept:" + escape(ticket) }

// keys returns the keys that most scripts work on, in their order.
func (n *name) keys() [5]any {
	all := n.holder + ":queue" + n.holder + ":tickets" + n.holder + ":readqueue" // one allocation for the three
	queue := len(n.holder) + len(":queue")
	tickets := queue + len(n.holder) + len(":tickets")
	return [5]any{n.holder, all[:queue], all[queue:tickets], n.fence, all[tickets:]}
}

// keyOf is the reverse of nameOf: the key whose holder is kept there, if any is.
func keyOf(prefix, holder string) (key string, ok bool) {
	tag, ok := strings.CutPrefix(holder, prefix+":{")
	if !ok || !strings.HasSuffix(tag, "}") {
		return "", false
	}
	tag = strings.TrimSuffix(tag, "}")
	key = unescape(tag)
	return key, key != "" && escape(key) == tag
}

// escape percent-encodes what would cut the hash tag short or is no fun in a terminal.
func escape(key string) string {
	special := func(b byte) bool { return b < ' ' || b == 0x7f || b == '{' || b == '}' || b == '%' }
	n := 0
	for i := range len(key) {
		if special(key[i]) {
			n++
		}
	}
	if n == 0 {
		return key
	}
	var b strings.Builder
	b.Grow(len(key) + 2*n)
	for i := range len(key) {
		if special(key[i]) {
			fmt.Fprintf(&b, "%%%02X", key[i])
		} else {
			b.WriteByte(key[i])
		}
	}
	return b.String()
}

// unescape is the reverse of escape.
func unescape(tag string) string {
	var b strings.Builder
	for i := 0; i < len(tag); i++ {
		if tag[i] == '%' && i+2 < len(tag) {
			if v, err := strconv.ParseUint(tag[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		b.WriteByte(tag[i])
	}
	return b.String()
}

const slots = 16384

// slotOf is a hash tag's slot in a Cluster: CRC16-CCITT (XModem), as the Cluster specification has it.
func slotOf(tag string) int {
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % slots)
}

// slotTag returns a short hash tag that lies in a slot: the fencing counter of a Cluster stands once
// in each slot, under such a tag.
func slotTag(slot int) string { return slotTags()[slot] }

var slotTags = sync.OnceValue(func() []string {
	tags := make([]string, slots)
	for i, missing := 0, slots; missing > 0; i++ {
		tag := strconv.FormatInt(int64(i), 36)
		if slot := slotOf(tag); tags[slot] == "" {
			tags[slot] = tag
			missing--
		}
	}
	return tags
})
