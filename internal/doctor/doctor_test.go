package doctor_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// plan has the usual options.
var plan = doctor.Options{Prefix: "shop", Lease: 30 * time.Second}

func examine(t *testing.T, rdb redis.UniversalClient, o doctor.Options) (findings []doctor.Finding) {
	for f := range doctor.Examine(t.Context(), rdb, o) {
		findings = append(findings, f)
	}
	return findings
}

// want checks that a check has a finding with this verdict and text.
func want(t *testing.T, findings []doctor.Finding, check string, v doctor.Verdict, saw string) {
	t.Helper()
	for _, f := range findings {
		if f.Check == check && f.Verdict == v && strings.Contains(f.Saw, saw) {
			if v >= doctor.Warning && f.Remedy == "" {
				t.Errorf("%s: no remedy for %q", check, f.Saw)
			}
			return
		}
	}
	t.Errorf("%s: no finding has %q with verdict %v: %+v", check, saw, v, findings)
}

// wantHealthy checks that all checks ran in order, without warnings or failures.
func wantHealthy(t *testing.T, findings []doctor.Finding, checks ...[]string) {
	t.Helper()
	var done []string
	for _, f := range findings {
		slow := slices.Contains([]string{"scripts", "lock", "hand-over"}, f.Check) // a busy machine may be slow
		if f.Verdict == doctor.Failure || f.Verdict == doctor.Warning && !slow {
			t.Errorf("%+v", f)
		}
		done = append(done, f.Check)
	}
	if all := slices.Concat(checks...); !slices.Equal(slices.Compact(done), all) {
		t.Errorf("checks %v, want %v", done, all)
	}
}

func TestAServerIsHealthy(t *testing.T) {
	t.Parallel()
	rdb := redistest.Redis(t, "--appendonly", "yes", "--appendfsync", "always").NewClient(t)
	findings := examine(t, rdb, plan)
	wantHealthy(t, findings, doctor.ReadOnlyChecks, doctor.WritingChecks)
	want(t, findings, "persistence", doctor.OK, "always")
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if key != "shop:fence" && rdb.PTTL(t.Context(), key).Val() < 0 {
			t.Errorf("Examine left the key %s", key)
		}
	}
}

// The embedded server answers INFO with hardly any field.
func TestMissingInformationIsNotAWarning(t *testing.T) {
	t.Parallel()
	findings := examine(t, redistest.Mini(t).NewClient(t), plan)
	wantHealthy(t, findings, doctor.ReadOnlyChecks, doctor.WritingChecks)
	want(t, findings, "eviction", doctor.Unknown, "")
}

func TestReadOnlyWritesNothing(t *testing.T) {
	t.Parallel()
	rdb := redistest.Redis(t).NewClient(t)
	o := plan
	o.ReadOnly = true
	wantHealthy(t, examine(t, rdb, o), doctor.ReadOnlyChecks)
	if n := rdb.Info(t.Context(), "stats").Val(); !strings.Contains(n, "total_commands_processed") || rdb.DBSize(t.Context()).Val() != 0 {
		t.Errorf("Examine wrote the keys %v", rdb.Keys(t.Context(), "*").Val())
	}
}

// A proxy that spreads connections over servers shows it only on a second one.
func TestOneConnectionDoesNotShowThatThereIsOneServer(t *testing.T) {
	t.Parallel()
	rdb := redistest.Redis(t).NewClient(t, func(o *redis.Options) { o.PoolSize, o.PoolTimeout = 1, time.Millisecond })
	o := plan
	o.ReadOnly = true
	want(t, examine(t, rdb, o), "address", doctor.Unknown, "no second connection")
}

func TestAClusterIsHealthy(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, 2, 1)
	admin := cluster.Client(t)
	for master := range 2 { // a server lists a replica only once it has received a write
		admin.Set(t.Context(), cluster.KeyAt(master), "1", time.Second)
	}
	usertest.Eventually(t, "the replicas are listed", 30*time.Second, func() bool {
		for _, node := range cluster.Nodes {
			ranges, _ := node.NewClient(t).Do(t.Context(), "CLUSTER", "SLOTS").Slice()
			for _, r := range ranges {
				if nodes := len(r.([]any)) - 2; nodes != 2 { // the first two are the ends of the range
					return false
				}
			}
		}
		return true
	})
	findings := examine(t, cluster.Client(t), plan)
	want(t, findings, "connection", doctor.OK, "2 masters and 2 replicas")
	wantHealthy(t, findings, doctor.ReadOnlyChecks, doctor.WritingChecks)
	want(t, findings, "address", doctor.OK, "all slots")
	want(t, findings, "replicas", doctor.Advice, "a fail-over may lose")
	for _, f := range findings {
		if f.Server != "" {
			t.Errorf("a finding about all servers names %s: %+v", f.Server, f)
		}
	}
}

func TestEvictionAndMemoryAreReported(t *testing.T) {
	t.Parallel()
	rdb := redistest.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru").NewClient(t)
	o := plan
	o.ReadOnly = true
	want(t, examine(t, rdb, o), "eviction", doctor.Failure, "allkeys-lru: a full server evicts locks that are held, and idempotency records")
	want(t, examine(t, rdb, o), "memory", doctor.OK, "of 100 MiB used")
	rdb.ConfigSet(t.Context(), "maxmemory", "0")
	rdb.ConfigSet(t.Context(), "maxmemory-policy", "volatile-ttl") // records expire, so it evicts them
	want(t, examine(t, rdb, o), "eviction", doctor.Warning, "volatile-ttl: if maxmemory is ever set (now 0), a full server will evict locks and idempotency records")
	rdb.ConfigSet(t.Context(), "maxmemory-policy", "noeviction")
	rdb.ConfigSet(t.Context(), "maxmemory", "1")
	want(t, examine(t, rdb, plan), "memory", doctor.Failure, "full")
	want(t, examine(t, rdb, plan), "lock", doctor.Failure, "OOM")
}

func TestTheDoctorSaysWhatACrashLoses(t *testing.T) {
	t.Parallel()
	rdb := redistest.Redis(t).NewClient(t)
	o := plan
	o.ReadOnly = true
	for _, tt := range []struct {
		appendonly, appendfsync, save string
		verdict                       doctor.Verdict
		saw, remedy                   string
	}{
		{"no", "always", "", doctor.Advice, "no snapshots: a restart loses all locks and idempotency records", "runs again; to prevent that, CONFIG SET appendonly yes"},
		{"no", "always", "900 1", doctor.Advice, "loses all locks and idempotency records since the last snapshot", "CONFIG SET appendonly yes"},
		{"yes", "no", "", doctor.Advice, "appendfsync no: a crash of the machine may lose", "CONFIG SET appendfsync always"},
		{"yes", "everysec", "", doctor.Advice, "the locks and idempotency records of the last second", "CONFIG SET appendfsync always"},
		{"yes", "always", "", doctor.OK, "loses no lock and no idempotency record", ""},
	} {
		for name, value := range map[string]string{"appendonly": tt.appendonly, "appendfsync": tt.appendfsync, "save": tt.save} {
			if err := rdb.ConfigSet(t.Context(), name, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		findings := examine(t, rdb, o)
		want(t, findings, "persistence", tt.verdict, tt.saw)
		if i := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Check == "persistence" }); !strings.Contains(findings[i].Remedy, tt.remedy) {
			t.Errorf("%+v has the remedy %q", tt, findings[i].Remedy)
		}
	}
}

func TestAReplicaTakesNoLocks(t *testing.T) {
	t.Parallel()
	master := redistest.Redis(t)
	rdb := redistest.Redis(t).NewClient(t)
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	findings := examine(t, rdb, plan)
	want(t, findings, "role", doctor.Failure, "a replica of "+master.Addr())
}

func TestSeveralServersBehindOneAddressAreFound(t *testing.T) {
	t.Parallel()
	two := []*redistest.Server{redistest.Redis(t), redistest.Redis(t)}
	var connections atomic.Int32
	rdb := two[0].NewClient(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, two[connections.Add(1)%2].Addr())
		}
	})
	var open [2]*redis.Conn // the pool has a connection to each
	for i := range open {
		open[i] = rdb.Conn()
		if err := open[i].Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, conn := range open {
		_ = conn.Close()
	}
	o := plan
	o.ReadOnly = true
	want(t, examine(t, rdb, o), "address", doctor.Failure, "2 servers")
}

func TestConnectionErrorsHaveARemedy(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t, "--requirepass", "secret")
	unknown := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "lockmw.invalid", IsNotFound: true}}
	}
	for name, tt := range map[string]struct {
		edit   func(*redis.Options)
		saw    string
		remedy string
	}{
		"no password":       {func(*redis.Options) {}, "NOAUTH", "redis://user:password@"},
		"wrong password":    {func(o *redis.Options) { o.Password = "guess" }, "WRONGPASS", "wrong"},
		"nobody listens":    {func(o *redis.Options) { o.Addr, o.DialerRetries, o.MaxRetries = "localhost:1", 1, -1 }, "refused", "host and port"},
		"no such host":      {func(o *redis.Options) { o.Dialer, o.DialerRetries, o.MaxRetries = unknown, 1, -1 }, "lockmw.invalid", "name"},
		"context has ended": {func(*redis.Options) {}, "context canceled", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "context has ended" {
				cancel()
			}
			var findings []doctor.Finding
			for f := range doctor.Examine(ctx, s.NewClient(t, tt.edit), plan) {
				findings = append(findings, f)
			}
			if len(findings) != 1 || findings[0].Verdict != doctor.Failure || !strings.Contains(findings[0].Saw, tt.saw) || !strings.Contains(findings[0].Remedy, tt.remedy) {
				t.Errorf("%+v", findings)
			}
		})
	}
}

// The random keys of the examination, and a user's keys, may contain any letters.
func TestAWordInAKeyIsNotTheReason(t *testing.T) {
	for _, key := range []string{"doctor:LXBCBPZSOOME2TA4RAHEOES7BP", "doctor:EOFQ", "doctor:ALOADING"} {
		err := fmt.Errorf("lockmw: try_lock %q: lock server is unavailable: MISCONF Redis is configured to save RDB snapshots", key)
		if got := doctor.Remedy(err); !strings.Contains(got, "disk") {
			t.Errorf("%v: the remedy is %q", err, got)
		}
	}
}

func TestAWrongClockIsDetected(t *testing.T) {
	t.Parallel()
	o := plan
	o.ReadOnly = true
	for saw, ahead := range map[string]time.Duration{"ahead of": 5 * time.Second, "behind": -5 * time.Second} {
		want(t, examine(t, redistest.Clocked(t, ahead).NewClient(t), o), "clocks", doctor.Advice, saw)
	}
}

func TestTimeoutsTooLongForTheLeaseAreDetected(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	for saw, tt := range map[string]struct {
		edit    func(*redis.Options)
		verdict doctor.Verdict
	}{
		"ReadTimeout is off": {func(o *redis.Options) { o.ReadTimeout = -2 }, doctor.Failure},
		"ReadTimeout is 40s": {func(o *redis.Options) { o.ReadTimeout = 40 * time.Second }, doctor.Warning},
		"DialTimeout is 20s": {func(o *redis.Options) { o.DialTimeout = 20 * time.Second }, doctor.Warning},
		"PoolSize is 1":      {func(o *redis.Options) { o.PoolSize = 1 }, doctor.Warning},
		"its timeouts fit a": {func(*redis.Options) {}, doctor.OK},
	} {
		o := plan
		o.ReadOnly = true
		want(t, examine(t, s.NewClient(t, tt.edit), o), "client", tt.verdict, saw)
		o.Borrowed = true
		if slices.ContainsFunc(examine(t, s.NewClient(t, tt.edit), o), func(f doctor.Finding) bool { return f.Check == "client" }) {
			t.Errorf("%s: the timeouts of a borrowed client are checked", saw)
		}
	}
}

func TestABreakEndsTheExamination(t *testing.T) {
	t.Parallel()
	for f := range doctor.Examine(t.Context(), redistest.Redis(t).NewClient(t), plan) {
		if f.Check != "connection" {
			t.Errorf("%+v came after the end", f)
		}
		break
	}
}
