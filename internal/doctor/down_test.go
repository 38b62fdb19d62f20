package doctor_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/test/redistest"
)

func TestEachMissingRightIsNamedOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	admin := s.NewClient(t)
	for _, denied := range [][]string{{"pexpire"}, {"pexpire", "zadd", "evalsha"}, {"info"}, {"scan", "info", "wait", "pexpire"}} {
		rules := []string{"reset", "on", ">hush", "~*", "&*", "+@all"}
		for _, right := range denied {
			rules = append(rules, "-"+right)
		}
		if err := redistest.SetUser(t.Context(), admin, "app", rules...); err != nil {
			t.Fatal(err)
		}
		rdb := s.NewClient(t, func(o *redis.Options) { o.Username, o.Password = "app", "hush" })
		var named []string
		for _, f := range examine(t, rdb, plan) {
			if f.Check == "rights" && f.Verdict != doctor.OK {
				for _, text := range []string{f.Saw, f.Remedy} {
					rights := slices.DeleteFunc(strings.Fields(text), func(word string) bool { return !strings.HasPrefix(word, "+") })
					if slices.Sort(rights); len(slices.Compact(slices.Clone(rights))) != len(rights) {
						t.Errorf("without %q a finding repeats a right: %q", denied, text)
					}
					named = append(named, rights...)
				}
			}
		}
		for _, right := range denied {
			if !slices.Contains(named, "+"+right) {
				t.Errorf("without %q the findings name %q", denied, named)
			}
		}
	}
}

// failing makes commands fail with an error of the server.
type failing struct {
	answer   string
	commands []string // none: all except those that read the state of the server
}

// An answer is an error of a server.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func (failing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f failing) fails(cmd redis.Cmder) bool {
	if len(f.commands) > 0 {
		return slices.Contains(f.commands, cmd.Name())
	}
	return !slices.Contains([]string{"ping", "info", "config", "time", "hello", "client"}, cmd.Name())
}

func (f failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f.fails(cmd) {
			cmd.SetErr(answer(f.answer))
			return answer(f.answer)
		}
		return next(ctx, cmd)
	}
}

func (f failing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, f.fails) {
			for _, cmd := range cmds {
				cmd.SetErr(answer(f.answer))
			}
			return answer(f.answer)
		}
		return next(ctx, cmds)
	}
}

// Every check reports an error that does not depend on the command as it is.
func TestAGeneralRefusalIsReportedAsItself(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	for text, remedy := range map[string]string{
		"CLUSTERDOWN Hash slot not served": "a master is missing", "CLUSTERDOWN The cluster is down": "a master is missing", "LOADING Redis is loading": "wait",
		"READONLY You can't write against a read only replica.": "master", "MASTERDOWN Link with MASTER is down": "a master is missing",
		"MISCONF Redis is configured to save RDB snapshots": "disk", "OOM command not allowed": "memory",
	} {
		for _, commands := range [][]string{nil, {"publish"}} {
			rdb := s.NewClient(t)
			rdb.AddHook(failing{text, commands})
			complaints := 0
			for _, f := range examine(t, rdb, plan) {
				if strings.Contains(f.Remedy, "proxy") || f.Check == "rights" && f.Verdict == doctor.OK && commands == nil {
					t.Errorf("%s: %+v", text, f)
				}
				if strings.Contains(f.Saw, text[:8]) {
					if complaints++; !strings.Contains(f.Remedy, remedy) {
						t.Errorf("%s: the remedy is %q: %+v", text, f.Remedy, f)
					}
				}
			}
			if complaints == 0 {
				t.Errorf("%s, for %q: no finding reports it", text, commands)
			}
		}
	}
}

// A clusterInfo is the answer to CLUSTER INFO; one that begins with NOPERM is an error.
type clusterInfo string

func (clusterInfo) DialHook(next redis.DialHook) redis.DialHook { return next }

func (i clusterInfo) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		info, ok := cmd.(*redis.StringCmd)
		if !ok || cmd.Name() != "cluster" {
			return next(ctx, cmd)
		}
		if info.SetVal(string(i)); strings.HasPrefix(string(i), "NOPERM") {
			info.SetErr(answer(i))
		}
		return info.Err()
	}
}

func (clusterInfo) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAllSlotsHaveAMasterOnlyIfTheServersSaySo(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t, "--cluster-enabled", "yes")
	if err := s.NewClient(t).ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	o := plan
	o.ReadOnly = true
	for info, verdict := range map[string]doctor.Verdict{
		"cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n": doctor.OK,
		"cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:8001\r\n":  doctor.Failure, // without full coverage
		"cluster_state:fail\r\ncluster_slots_ok:16384\r\n":                               doctor.Failure,
		"NOPERM this user has no permissions to run the 'cluster|info' command":          doctor.Unknown,
	} {
		cluster := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{s.Addr()}, NewClient: func(o *redis.Options) *redis.Client {
				c := redis.NewClient(o)
				c.AddHook(clusterInfo(info))
				return c
			},
		})
		t.Cleanup(func() { _ = cluster.Close() })
		want(t, examine(t, cluster, o), "address", verdict, "")
	}
}

// A dropped is a command whose connection breaks each time.
type dropped string

func (dropped) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d dropped) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == string(d) {
			cmd.SetErr(io.EOF)
			return io.EOF
		}
		return next(ctx, cmd)
	}
}

func (dropped) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestARightThatCouldNotBeTriedIsUnknown(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	for _, command := range []string{"zcard", "wait"} {
		rdb := s.NewClient(t)
		rdb.AddHook(dropped(command))
		want(t, examine(t, rdb, plan), "rights", doctor.Unknown, command+" was not answered: EOF")
	}
}

func TestAClusterWithoutSlotsIsDown(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t, "--cluster-enabled", "yes")
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}})
	defer cluster.Close()
	for _, rdb := range []redis.UniversalClient{s.NewClient(t), cluster} {
		findings := examine(t, rdb, plan)
		if !slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Verdict == doctor.Failure }) {
			t.Errorf("%T: %+v", rdb, findings)
		}
		for _, f := range findings {
			if strings.Contains(f.Remedy, "proxy") || f.Check == "rights" && f.Verdict == doctor.OK {
				t.Errorf("%T: %+v", rdb, f)
			}
			if strings.Contains(f.Saw, "CLUSTERDOWN") && !strings.Contains(f.Remedy, "a master is missing") {
				t.Errorf("%T: %+v", rdb, f)
			}
		}
	}
}
