package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// renewals keeps when a renewal was reported, and how it ended.
type renewals struct {
	*requester
	reported chan error
}

func (a *renewals) Renewed(err error) { a.reported <- err }

// A server that says nothing leaves time to react: a warning comes long before the loss, once.
func TestAnOverdueRenewalIsReported(t *testing.T) {
	for _, lease := range []time.Duration{300 * time.Millisecond, 30 * time.Second, time.Hour} {
		t.Run(lease.String(), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				a := &renewals{requester: b.requester(core.Write), reported: make(chan error, 100)}
				a.Lease, a.Events = lease, a
				g, err := b.e.Acquire(b.Context(), &a.Request)
				if err != nil {
					b.Fatal(err)
				}
				if err := <-a.reported; err != nil {
					b.Errorf("a renewal that was answered: %v", err)
				}
				renewed := time.Now()
				b.wire.Silence()
				err = <-a.reported
				// With a long lease the connection's timeout comes sooner.
				if took := time.Since(renewed); !errors.Is(err, core.ErrUnavailable) || took > lease/3+lease/6 {
					b.Errorf("with a lease of %v: %v after %v", lease, err, took)
				}
				b.wire.Restore()
				for err != nil {
					err = <-a.reported // until one is answered
				}
				if _, err := g.Release(time.Second); err != nil {
					b.Errorf("Release: %v", err)
				}
			})
		})
	}
}
