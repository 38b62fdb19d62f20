package doctor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func slottedPlan() doctor.Options {
	o := plan
	o.SlottedKeys = true
	return o
}

// Some processes have the option, and some do not.
func TestTwoLayoutsOnOneServerAreFound(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb := s.NewClient(t)
	usertest.Occupy(t, usertest.ClientOf(t, rdb, lockmw.WithPrefix("shop"), lockmw.WithSlottedKeys()), "item:7")()

	findings := examine(t, rdb, plan)
	want(t, findings, "layout", doctor.Failure, "your settings stand for one fencing counter for all keys")
	if last := findings[len(findings)-1]; last.Check != "layout" {
		t.Errorf("the doctor writes in a second layout: %+v", last)
	}
	if n := rdb.Exists(t.Context(), "shop:fence").Val(); n != 0 {
		t.Error("the doctor has made a counter")
	}
	want(t, examine(t, rdb, slottedPlan()), "layout", doctor.OK, "all locks have a fencing counter for each slot")

	usertest.Occupy(t, usertest.ClientOf(t, rdb, lockmw.WithPrefix("shop")), "item:7")()
	for _, o := range []doctor.Options{plan, slottedPlan()} {
		want(t, examine(t, rdb, o), "layout", doctor.Failure, "two layouts are in use")
	}

	old := time.Now().Add(-25 * time.Hour).UnixMicro()
	rdb.Set(t.Context(), "shop:fence", old, 0)
	want(t, examine(t, rdb, slottedPlan()), "layout", doctor.Advice, "shop:fence is left of locks with one fencing counter for all keys")
}

// The doctor says which option is missing.
func TestAProxyThatWantsKeysInOneSlotIsFound(t *testing.T) {
	t.Parallel()
	rdb := redistest.Slotted(t).NewClient(t)
	findings := examine(t, rdb, plan)
	i := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Check == "lock" && f.Verdict == doctor.Failure })
	if i < 0 || !strings.Contains(findings[i].Saw, "CROSSSLOT") || !strings.Contains(findings[i].Remedy, "WithSlottedKeys") {
		t.Errorf("%+v", findings)
	}
	wantHealthy(t, examine(t, rdb, slottedPlan()), doctor.ReadOnlyChecks, doctor.WritingChecks)
}

func TestAShardingProxyIsHealthy(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.NewCluster(t, 3, 0).NewShardingProxy(t)})
	defer rdb.Close()
	wantHealthy(t, examine(t, rdb, slottedPlan()), doctor.ReadOnlyChecks, doctor.WritingChecks)
}
