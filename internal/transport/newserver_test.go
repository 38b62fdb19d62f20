package transport_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
)

// A server that has replaced another one has no scripts. A pipeline to it, such as the renewals of all leases, must not take a
// round trip for each call.
func TestABatchSendsANewServerEachScriptOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		sender := transport.NewSender(s.NewClient(t, wire.Use), transport.Topology{Single: true}, time.Second, transport.Replicas{})
		t.Cleanup(sender.Stop)
		set, layout, stem := script.NewSet(script.DefaultParams(true)), script.NewLayout("lockmw", transport.Topology{}), script.IDStem("a")
		const n = 50
		answers := make(map[int]script.Outcome)
		var batch []*transport.Call
		for i := range n {
			keys := layout.KeySet(fmt.Sprint("item:", i))
			if i%2 == 0 {
				renew := script.Renew{Keys: &keys, ID: stem.New(1), Lease: time.Minute}
				batch = append(batch, renew.Call(t.Context(), set, func(r *transport.Reply) {
					a, err := script.RenewAnswer(r)
					if answers[i] = a.Outcome; err != nil {
						t.Error(err)
					}
				}))
				continue
			}
			release := script.Release{Keys: &keys, ID: stem.New(1)}
			batch = append(batch, release.Call(t.Context(), set, func(r *transport.Reply) {
				var err error
				if answers[i], err = script.EndedAnswer(r); err != nil {
					t.Error(err)
				}
			}))
		}
		wire.Record()
		sender.RunBatch(t.Context(), batch)
		for i := range n {
			if answers[i] != script.NotHeld {
				t.Errorf("the answer to call %d is %v", i, answers[i])
			}
		}
		whole := 0
		for _, c := range wire.Sent() {
			if c.IsScript() && strings.EqualFold(c[0], "eval") {
				whole++
			}
		}
		if whole != 2 {
			t.Errorf("%d scripts were sent whole, of two", whole)
		}
	})
}
