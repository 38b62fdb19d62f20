package doctor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/test/redistest"
)

// saying replaces the answer to INFO.
type saying struct{ lines string }

func (saying) DialHook(next redis.DialHook) redis.DialHook { return next }
func (saying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s saying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
			c.SetVal(strings.ReplaceAll(s.lines, " ", "\r\n") + "\r\n")
			return nil
		}
		return next(ctx, cmd)
	}
}

func TestTheFieldsOfINFOAreJudged(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	o := plan
	o.ReadOnly = true
	for _, tt := range []struct {
		says, check string
		verdict     doctor.Verdict
		saw         string
	}{
		{"redis_version:5.0.14", "server", doctor.Failure, "redis 5.0.14"},
		{"redis_version:6.0.0", "server", doctor.OK, "redis 6.0.0"},
		{"redis_version:10.1.0", "server", doctor.OK, "redis 10.1.0"},
		{"redis_version:7.2.4 valkey_version:8.0.1", "server", doctor.OK, "valkey 8.0.1"},
		{"redis_version:7.2.0 dragonfly_version:df-v1.23.0", "server", doctor.Warning, "dragonfly"},
		{"redis_version:7.2.4 valkey_version:8.0.1 server_mode:sentinel", "server", doctor.Failure, "Sentinel"},
		{"redis_version:7.0.0 redis_mode:sentinel", "server", doctor.Failure, "Sentinel"},
		{"role:master maxmemory:1000 used_memory:950", "memory", doctor.Warning, "nearly full"},
		{"aof_enabled:1 aof_last_write_status:err", "persistence", doctor.Failure, "append-only file failed"},
		{"aof_enabled:1", "persistence", doctor.Advice, "the last second"},
		{"aof_enabled:0 rdb_last_bgsave_status:err", "persistence", doctor.Warning, "snapshot failed"},
		{"connected_slaves:1 slave0:ip=127.0.0.1,port=1,state=wait_bgsave", "replicas", doctor.Warning, "not in sync"},
		{"connected_slaves:1 slave0:ip=127.0.0.1,port=1,state=online", "replicas", doctor.Advice, "may lose the newest"},
	} {
		rdb := s.NewClient(t)
		rdb.AddHook(saying{tt.says})
		want(t, examine(t, rdb, o), tt.check, tt.verdict, tt.saw)
	}
	o.Asynq = true
	for version, verdict := range map[string]doctor.Verdict{"6.0.16": doctor.Failure, "6.2.0": doctor.OK, "6": doctor.Failure, "7.0.15": doctor.OK} {
		rdb := s.NewClient(t)
		rdb.AddHook(saying{"redis_version:" + version})
		want(t, examine(t, rdb, o), "server", verdict, "redis "+version)
	}
	rdb := s.NewClient(t)
	if err := rdb.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	rdb.AddHook(saying{"connected_slaves:1"})
	want(t, examine(t, rdb, o), "replicas", doctor.OK, "min-replicas-to-write is 1")
}
