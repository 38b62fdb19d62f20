package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A fixedHold is one that is not renewed.
type fixedHold struct {
	*lockmw.Hold
	ctx context.Context
}

func holdFixed(t *testing.T, locks *lockmw.Client, key string, lease time.Duration) fixedHold {
	t.Helper()
	ctx, h := usertest.Lock(t, context.WithoutCancel(t.Context()), locks, key, lockmw.WithFixedLease(lease))
	return fixedHold{h, ctx}
}

// A shelter is what a fail-over may be survived by: options of a holder, and of the next one. The next one does not wait
// until there are replicas again.
type shelter struct {
	name         string
	holder, next []lockmw.ClientOption
}

var (
	inQuarantine = []lockmw.ClientOption{lockmw.WithLease(quarantinedLease), lockmw.WithQuarantine(quarantine)}
	shelters     = []shelter{
		{"WithQuarantine", inQuarantine, inQuarantine}, // first, as the master is new, and the other leases do not wait
		{"nothing", nil, nil},
		{"WithReplicas", []lockmw.ClientOption{lockmw.WithReplicas(1, time.Second)}, nil},
	}
)

// afterFailover takes a lock in each shelter, by clients that are then cut off. The master dies, and a replica with its own clock
// takes its place. When the next caller gets the lock, it calls judge with the time since the holder's deadline.
func afterFailover(t *testing.T, ahead time.Duration, lease func(shelter) time.Duration, judge func(in shelter, late time.Duration)) {
	t.Helper()
	servers := redistest.NewClockedSentinel(t, 1, 0, ahead)
	wire := servers.NewWire()
	holds := make([]fixedHold, len(shelters))
	for i, in := range shelters {
		locks := usertest.Abandoned(t, servers.Universal(t, wire.Use), in.holder...)
		holds[i] = holdFixed(t, locks, in.name, lease(in))
	}
	t.Cleanup(wire.Restore)
	servers.AwaitReplicated(0)
	wire.Cut()
	replace(servers)
	var wg sync.WaitGroup
	for i, in := range shelters {
		next := usertest.Abandoned(t, servers.Client(t), in.next...)
		wg.Go(func() {
			h := hold(t, next, in.name)
			if h == nil {
				return
			}
			late := time.Since(holds[i].Deadline())
			if works := holds[i].ctx.Err() == nil; works && late > 0 {
				t.Errorf("with %s: a hold continues after its deadline", in.name)
			}
			judge(in, late)
			usertest.Unlock(t, h)
		})
	}
	wg.Wait()
}

// A replica that is ahead takes leases for over when it is promoted. Only a quarantine does not believe it.
func TestAReplicaThatIsAheadEndsLeasesEarly(t *testing.T) {
	suite.NeedsFull(t, "a fail-over takes seconds")
	t.Parallel()
	const ahead = 2 * time.Minute
	lease := func(in shelter) time.Duration {
		if in.next != nil {
			return quarantinedLease
		}
		return time.Minute
	}
	afterFailover(t, ahead, lease, func(in shelter, late time.Duration) {
		if sheltered := in.next != nil; (late < 0) == sheltered {
			t.Errorf("with %s: another one gets in %v after the holder's deadline", in.name, late)
		}
	})
}

// A replica that is behind ends leases of those who are gone late by as much, and not later.
func TestAReplicaThatIsBehindEndsLeasesLate(t *testing.T) {
	suite.NeedsFull(t, "a fail-over takes seconds")
	t.Parallel()
	const behind = 3 * time.Second
	lease := func(shelter) time.Duration { return quarantinedLease }
	afterFailover(t, -behind, lease, func(in shelter, late time.Duration) {
		if late < behind || late > behind+time.Minute {
			t.Errorf("with %s: another one gets in %v after the holder's deadline, and the replica is %v behind", in.name, late, behind)
		}
	})
}

// oldToken makes the master grant a token that no replica has. Then a replica whose clock is behind replaces the master.
func oldToken(t *testing.T, behind time.Duration) (servers *redistest.Sentinel, seen *lockmw.Client, token int64, promoted int) {
	t.Helper()
	servers = redistest.NewClockedSentinel(t, 1, 0, -behind)
	servers.SetDownAfter(time.Minute)
	seen = usertest.Abandoned(t, servers.Client(t))
	used(t, seen, "earlier")
	servers.AwaitReplicated(0)
	servers.CutOff(0)
	token = used(t, seen, "fresh")
	return servers, seen, token, replace(servers)
}

// replace kills the master, and returns which replica takes its place.
func replace(servers *redistest.Sentinel) (promoted int) {
	servers.SetDownAfter(500 * time.Millisecond)
	servers.Nodes[0].Kill()
	return servers.AwaitPromoted(0)
}

// used takes a lock, releases it, and returns its token.
func used(t *testing.T, locks *lockmw.Client, key string) int64 {
	t.Helper()
	h := hold(t, locks, key)
	if h == nil {
		t.FailNow()
	}
	usertest.Unlock(t, h)
	return h.Token()
}

// A process that has seen a token gets greater ones, and then so do all processes. Before that, others may get smaller ones.
func TestTokensFallForThoseOnlyWhoHaveSeenNone(t *testing.T) {
	suite.NeedsFull(t, "a fail-over takes seconds")
	t.Parallel()
	servers, seen, token, _ := oldToken(t, 30*time.Second)
	cold := usertest.Abandoned(t, servers.Client(t))
	if fallen := used(t, cold, "fresh"); fallen >= token {
		t.Errorf("a process that has seen no token gets %d after %d: the fall is closed, and the documents say it is not", fallen, token)
	}
	for i, locks := range []*lockmw.Client{seen, cold, usertest.Abandoned(t, servers.Client(t))} {
		risen := used(t, locks, "fresh")
		if risen <= token {
			t.Errorf("process %d gets token %d after %d", i, risen, token)
		}
		token = risen
	}
}

// More than a minute is not made up for. It is named, and over when the clock is set.
func TestTheClockOfANewMasterThatIsFarBehindIsNamed(t *testing.T) {
	suite.NeedsFull(t, "a fail-over takes seconds")
	t.Parallel()
	const behind = 10 * time.Minute
	servers, seen, token, promoted := oldToken(t, behind)
	_, _, err := seen.Lock(t.Context(), "fresh", lockmw.WithWait(time.Minute))
	if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "its clock is ") {
		t.Errorf("with a clock %v behind: %v", behind, err)
	}
	if fallen := used(t, usertest.Abandoned(t, servers.Client(t)), "fresh"); fallen >= token {
		t.Errorf("a process that has seen no token gets %d after %d: the fall is closed, and the documents say it is not", fallen, token)
	}
	servers.Nodes[promoted].StepClock(t, behind)
	if risen := used(t, seen, "fresh"); risen <= token {
		t.Errorf("token %d after %d", risen, token)
	}
}
