package main

import (
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// The server reports a Cluster and wants the keys of a script in one slot. With the flag the command takes it for a proxy.
func TestSlottedKeysAreSeenWithTheirFlag(t *testing.T) {
	t.Parallel()
	s := redistest.Slotted(t)
	take(t, newClient(t, s, lockmw.WithSlottedKeys()), "user:42")
	status, err := usertest.Inspector(t, s.NewClient(t), lockmw.WithSlottedKeys()).Get(t.Context(), "user:42")
	if err != nil || len(status.Holders) != 1 {
		t.Fatalf("%+v %v", status, err)
	}
	id := idOf(status.Holders[0])
	lockmwOn(t, s, "ls", "--slotted-keys").want(t, statusDone, "user:42")
	lockmwOn(t, s, "doctor", "--slotted-keys", "--lease", "1m").want(t, statusDone, "the proxy answers", "all locks have a fencing counter for each slot")
	lockmwOn(t, s, "unlock", "user:42", "--holder", id, "--yes", "--slotted-keys").want(t, statusDone, "released")
	verifyArgs := []string{"verify", "--yes", "--for", "1s", "--lease", "500ms", "--share", "0.3", "--processes", "2", "--slotted-keys"}
	lockmwOn(t, s, verifyArgs...).want(t, statusDone, "holds: no promise was broken")
	lockmwOn(t, s, append(verifyArgs, "--replicas", "1")...).want(t, statusUsage, "--slotted-keys")
}
