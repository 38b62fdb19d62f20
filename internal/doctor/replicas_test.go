package doctor_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
)

// follow makes a server a replica of another one, and waits until the master says that it is online.
func follow(t *testing.T, replica, master *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.NewClient(t).ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(replica.Addr())
	rdb := master.NewClient(t)
	usertest.Eventually(t, "the replica is online", 30*time.Second, func() bool {
		info := rdb.Info(t.Context(), "replication").Val()
		return strings.Contains(info, "port="+port+",state=online")
	})
}

// quickSync makes a master send its data without a delay.
var quickSync = []string{"--repl-diskless-sync-delay", "0"}

func TestReplicasOutsideAClusterAreExamined(t *testing.T) {
	t.Parallel()
	master := redistest.Redis(t, quickSync...)
	ahead := redistest.Clocked(t, 5*time.Second, "--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb")
	follow(t, ahead, master)
	o := plan
	o.ReadOnly = true
	findings := examine(t, master.NewClient(t), o)
	want(t, findings, "connection", doctor.OK, "replicas answer: 1")
	want(t, findings, "clocks", doctor.Failure, "clocks differ by ")
	want(t, findings, "eviction", doctor.Warning, "allkeys-lru")
	for _, f := range findings {
		if f.Check == "eviction" && f.Verdict == doctor.Warning && f.Server != ahead.Addr() {
			t.Errorf("the finding about the replica's policy names %q", f.Server)
		}
		if (f.Check == "role" || f.Check == "replicas") && f.Server != "" {
			t.Errorf("a finding about all masters names %q: %+v", f.Server, f)
		}
	}
}

func TestAReplicaOfAReplicaIsExamined(t *testing.T) {
	t.Parallel()
	master, second, third := redistest.Redis(t, quickSync...), redistest.Redis(t, quickSync...), redistest.Redis(t)
	follow(t, second, master)
	follow(t, third, second)
	findings := examine(t, master.NewClient(t), plan)
	wantHealthy(t, findings, doctor.ReadOnlyChecks, doctor.WritingChecks)
	want(t, findings, "clocks", doctor.OK, "3 of 3 agree")
}

func TestReplicasBehindSentinelAreExamined(t *testing.T) {
	suite.NeedsFull(t, "Sentinels have to find each other")
	t.Parallel()
	findings := examine(t, redistest.NewSentinel(t, 2, 1).Client(t), plan)
	wantHealthy(t, findings, doctor.ReadOnlyChecks, doctor.WritingChecks)
	want(t, findings, "clocks", doctor.OK, "3 of 3 agree")
}

func TestAReplicaThatDoesNotAnswerIsReported(t *testing.T) {
	t.Parallel()
	rdb := redistest.Redis(t).NewClient(t)
	rdb.AddHook(redistest.Says("role:master connected_slaves:1 slave0:ip=127.0.0.1,port=1,state=online"))
	o := plan
	o.ReadOnly = true
	findings := examine(t, rdb, o)
	want(t, findings, "connection", doctor.Unknown, "does not answer")
	want(t, findings, "clocks", doctor.OK, "1 of 2 agree")
}

// closed hides the options of a client.
type closed struct{ redis.UniversalClient }

func (c closed) Unwrap() redis.UniversalClient { return c.UniversalClient }

func TestUncheckedReplicasAreReported(t *testing.T) {
	t.Parallel()
	rdb := redistest.Redis(t).NewClient(t)
	rdb.AddHook(redistest.Says("role:master connected_slaves:1 slave0:ip=127.0.0.1,port=1,state=online"))
	o := plan
	o.ReadOnly = true
	findings := examine(t, closed{rdb}, o)
	want(t, findings, "connection", doctor.Unknown, "does not show its options: 1")
	want(t, findings, "clocks", doctor.OK, "1 of 2 agree")
}
