package script

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// HolderInfo is the information about a hold in the field 'owner' of a holder, a reader or a ticket. The field is the owner alone
// or, with the parts that apply,
//
//	<owner>;fixed;min=<ms>;place=<name>;process=<process>;label=<label>
//
// No part contains a space. A '-' in front says that the hold was unlocked and its minimum hold keeps the key taken. The
// scripts copy the whole field, and compare only the owner.
type HolderInfo struct {
	Owner   string
	Fixed   bool          // the lease is not renewed
	MinHold time.Duration // the key stays taken for at least that long
	Lingers bool          // the hold was unlocked, and its minimum hold keeps the key taken
	Place   string        // name of its kept place in the queue
	Process string        // name of its process, if the process has several Clients with names of their own
	Label   string        // the caller's label for the hold
}

const (
	aboutFixed   = "fixed"
	aboutMinHold = "min="
	aboutPlace   = "place="
	aboutProcess = "process="
	aboutLabel   = "label="
)

// String returns the field.
func (a *HolderInfo) String() string {
	if !a.Fixed && a.MinHold <= 0 && a.Place == "" && a.Process == "" && a.Label == "" {
		return a.Owner
	}
	b := make([]byte, 0, len(a.Owner)+len(a.Label)+40)
	b = append(b, a.Owner...)
	if a.Fixed {
		b = append(b, ";"+aboutFixed...)
	}
	if a.MinHold > 0 {
		b = append(b, ";"+aboutMinHold...)
		b = strconv.AppendInt(b, transport.RoundUp(a.MinHold), 10)
	}
	if a.Place != "" {
		b = append(b, ";"+aboutPlace...)
		b = append(b, url.PathEscape(a.Place)...)
	}
	if a.Process != "" {
		b = append(b, ";"+aboutProcess...)
		b = append(b, a.Process...)
	}
	if a.Label != "" { // always at the end, because it may contain a ';'
		b = append(b, ";"+aboutLabel...)
		b = append(b, a.Label...)
	}
	return string(b)
}

// ParseHolderInfo reads the field. Other programs may have written it, so unknown parts are ignored.
func ParseHolderInfo(field string) (a HolderInfo) {
	owner, rest, more := strings.Cut(field, ";")
	a.Owner, a.Lingers = strings.CutPrefix(owner, "-")
	for more {
		if label, ok := strings.CutPrefix(rest, aboutLabel); ok {
			a.Label = core.Label(label)
			return a
		}
		var part string
		part, rest, more = strings.Cut(rest, ";")
		if ms, ok := strings.CutPrefix(part, aboutMinHold); ok {
			if n, err := strconv.ParseInt(ms, 10, 64); err == nil && n > 0 && n <= maxMinHold.Milliseconds() {
				a.MinHold = time.Duration(n) * time.Millisecond
			}
		}
		if name, ok := strings.CutPrefix(part, aboutPlace); ok {
			a.Place, _ = url.PathUnescape(name)
		}
		if name, ok := strings.CutPrefix(part, aboutProcess); ok {
			a.Process = name
		}
		a.Fixed = a.Fixed || part == aboutFixed
	}
	return a
}

// maxMinHold is longer than any minimum hold that a caller may ask for.
const maxMinHold = 48 * time.Hour

// DescribeHolder adds the information in the field to h. now is the server's time.
func DescribeHolder(h *core.Holder, field string, now time.Time) {
	a := ParseHolderInfo(field)
	h.Owner, h.Fixed, h.Lingers, h.Label = a.Owner, a.Fixed, a.Lingers, a.Label
	if h.Client = h.Process; a.Process != "" {
		h.Process = a.Process
	}
	if a.MinHold > 0 {
		h.MinRest = max(0, a.MinHold-max(0, now.Sub(h.Since)))
	}
}
