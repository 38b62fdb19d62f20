package lockevents

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A Taken is a hold that an operator has released by force.
type Taken struct {
	Key    string
	Mode   string        // of the lock: exclusive, fair, read, write or permit
	Holder lockmw.Holder // as lockmw.Inspector returned it
}

// mostBy is how many bytes of an operator's name are recorded.
const mostBy = 128

// ForceUnlocked records which holds an operator has released with lockmw.Inspector.ForceUnlock, and who that was: by is a name, or
// page or command if nobody knows. Unlike other events they are all written, before it returns. An error is Redis' own, or that of
// ctx.
func (r *Recorder) ForceUnlocked(ctx context.Context, by string, taken ...Taken) error {
	now := time.Now()
	by = strings.ToValidUTF8(by[:min(len(by), mostBy)], "")
	var err error
	for some := range slices.Chunk(taken, most) {
		events := make([]Event, len(some))
		for i := range some {
			t := &some[i]
			h := &t.Holder
			events[i] = Event{
				At: now, Kind: Forced, Key: t.Key, Mode: t.Mode, Label: h.Label, Token: h.Token, Held: max(now.Sub(h.Since), 0), By: by,
				Behind: Behind{Process: h.Process, Label: h.Label, Token: h.Token},
			}
		}
		err = errors.Join(err, r.send(ctx, events, 0))
	}
	return err
}
