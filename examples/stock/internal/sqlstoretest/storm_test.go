package sqlstoretest

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/interrupt"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

func testStorm(t *testing.T, d database) {
	if d.variant == "" {
		t.Skip("one variant of each database is enough")
	}
	clients, keys, retries, limit := 20, 200, 2, 2*time.Second
	if suite.Full() {
		clients, keys, retries, limit = 100, 1000, 3, 4*time.Second
	} else if !isSQLite(d) {
		suite.NeedsFull(t, "one database is enough")
	}
	server := redistest.Redis(t, redistest.Kept...)
	spec, here := openHere(t, server, newTestbed(t, d), runAgain)
	spec.Lease, spec.Wait, spec.Effort = 250*time.Millisecond, 0, 200*time.Millisecond
	s := interrupt.Storm{
		Clients: clients, Keys: keys, Retries: retries, Limit: limit, Redis: server, Lease: spec.Lease, Spec: spec,
		Effects: func() (map[string][]interrupt.Effect, error) {
			byKey := make(map[string][]interrupt.Effect)
			all, err := here.effects("%")
			for _, e := range all {
				key, _, _ := strings.Cut(e.Answer, "/")
				byKey[key] = append(byKey[key], e)
			}
			return byKey, err
		},
		Once: func(string) bool { return true },
	}
	toll := s.Run(t)
	t.Log(toll)
	if len(toll.Faults) > 0 {
		t.Errorf("%q", toll.Samples)
	}
}
