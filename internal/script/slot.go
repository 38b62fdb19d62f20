package script

import (
	"strconv"
	"sync"
)

const slots = 16384 // of a Cluster, and of a proxy that shards

// slotOf returns the slot of a hash tag: CRC16-CCITT (XModem), by the Cluster specification.
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

// slotTag returns a short hash tag in a slot. The fencing counters of the slots have these tags.
func slotTag(slot int) string { return slotTags()[slot] }

// Counters returns the key of the fencing counter that all locks share without slots, and the keys of the counters of all slots.
func (l *Layout) Counters() (shared string, ofSlots []string) {
	for _, tag := range slotTags() {
		ofSlots = append(ofSlots, l.slotPrefix(tag)+fenceSuffix)
	}
	return l.prefix + fenceSuffix, ofSlots
}

// slotPrefix is the prefix of what the locks of a slot share.
func (l *Layout) slotPrefix(tag string) string { return l.prefix + ":{" + tag + "}" }

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
