package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseSlots parses the slots of a permit, such as "0-2,5". There are at most MaxPermits slots.
func ParseSlots(text string) (slots []int, err error) {
	for run := range strings.SplitSeq(text, ",") {
		first, last, isRun := strings.Cut(run, "-")
		if !isRun {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, err
		}
		to, err := strconv.ParseUint(last, 10, 16)
		if err != nil {
			return nil, err
		}
		if to < from || to >= MaxPermits || len(slots)+int(to-from) >= MaxPermits {
			return nil, fmt.Errorf("invalid permit slots %q", text)
		}
		for slot := from; slot <= to; slot++ {
			slots = append(slots, int(slot))
		}
	}
	slices.Sort(slots)
	return slots, nil
}

// FormatSlots is the reverse of ParseSlots, for slots in ascending order.
func FormatSlots(slots []int) string {
	var b strings.Builder
	for i := 0; i < len(slots); {
		j := i
		for j+1 < len(slots) && slots[j+1] == slots[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(slots[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(slots[j]))
		}
		i = j + 1
	}
	return b.String()
}
