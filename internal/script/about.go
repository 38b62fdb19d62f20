package script

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// About is what the field 'owner' of a holder, a reader or a ticket says: who it is, and what others may want
// to know of the hold. It is the owner alone if there is nothing else to say, and otherwise
//
//	<owner>;fixed;min=<ms>;place=<name>;process=<process>;label=<label>
//
// with what applies. No part has a space in it. A '-' in front says that the hold was unlocked and its minimum
// hold keeps the key taken. The scripts copy the field and compare the owner only.
type About struct {
	Owner   string
	Fixed   bool          // the lease is not renewed
	MinHold time.Duration // the key stays taken at least that long
	Lingers bool          // and does so after the hold was unlocked
	Place   string        // the name of its kept place in the queue
	Process string        // the name of its process if it has several Clients, each of which has a name of its own
	Label   string        // what the caller says of the hold
}

const (
	aboutFixed   = "fixed"
	aboutMinHold = "min="
	aboutPlace   = "place="
	aboutProcess = "process="
	aboutLabel   = "label="
)

// String returns the field.
func (a *About) String() string {
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
	if a.Label != "" { // the last one, as it may contain a ';'
		b = append(b, ";"+aboutLabel...)
		b = append(b, a.Label...)
	}
	return string(b)
}

// ParseAbout reads the field. Others may have written it: what is not known is ignored.
func ParseAbout(field string) (a About) {
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

// maxMinHold is longer than any hold that a caller may ask for.
const maxMinHold = 48 * time.Hour

// DescribeHolder adds to h what the field says. now is the server's time.
func DescribeHolder(h *core.Holder, field string, now time.Time) {
	a := ParseAbout(field)
	h.Owner, h.Fixed, h.Lingers, h.Label = a.Owner, a.Fixed, a.Lingers, a.Label
	if h.Client = h.Process; a.Process != "" {
		h.Process = a.Process
	}
	if a.MinHold > 0 {
		h.MinRest = max(0, a.MinHold-max(0, now.Sub(h.Since)))
	}
}
