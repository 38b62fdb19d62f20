package doctor_test

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/test/redistest"
)

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
		{"role:active-replica", "role", doctor.Failure, "other servers accept writes as well"},
		{"role:master master_replid:8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb", "quarantine", doctor.OK, "can notice"},
		{"role:master master_replid:0000000000000000000000000000000000000000", "quarantine", doctor.Advice, "INFO shows no replication id"},
		{"role:master", "quarantine", doctor.Advice, "INFO shows no replication id"},
		{"role:master dragonfly_version:df-v1.23.0 master_replid:8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb", "quarantine", doctor.Advice, "Dragonfly keeps its replication id"},
		{"role:master maxmemory:1000 used_memory:950", "memory", doctor.Warning, "nearly full"},
		{"aof_enabled:1 aof_last_write_status:err", "persistence", doctor.Failure, "append-only file failed"},
		{"aof_enabled:1", "persistence", doctor.Advice, "the last second"},
		{"aof_enabled:0 rdb_last_bgsave_status:err", "persistence", doctor.Warning, "snapshot failed"},
		{"connected_slaves:1 slave0:ip=127.0.0.1,port=1,state=wait_bgsave", "replicas", doctor.Warning, "not in sync"},
		{"connected_slaves:1 slave0:ip=127.0.0.1,port=1,state=online", "replicas", doctor.Advice, "may lose the newest"},
	} {
		rdb := s.NewClient(t)
		rdb.AddHook(redistest.Says(tt.says))
		want(t, examine(t, rdb, o), tt.check, tt.verdict, tt.saw)
	}
	o.Asynq = true
	for version, verdict := range map[string]doctor.Verdict{"6.0.16": doctor.Failure, "6.2.0": doctor.OK, "6": doctor.Failure, "7.0.15": doctor.OK} {
		rdb := s.NewClient(t)
		rdb.AddHook(redistest.Says("redis_version:" + version))
		want(t, examine(t, rdb, o), "server", verdict, "redis "+version)
	}
	for says, check := range map[string]string{"aof_enabled:1": "persistence", "connected_slaves:1": "replicas"} { // managed services deny CONFIG
		rdb := s.NewClient(t)
		rdb.AddHook(redistest.Says(says))
		rdb.AddHook(dropped("config"))
		want(t, examine(t, rdb, o), check, doctor.Advice, "CONFIG GET does not show")
	}
	bySentinel := s.NewClient(t, func(o *redis.Options) {
		o.Addr = "FailoverClient" // as in a client of Sentinels
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.Addr())
		}
	})
	want(t, examine(t, bySentinel, o), "replicas", doctor.Warning, "no replica to promote")
	rdb := s.NewClient(t)
	if err := rdb.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	rdb.AddHook(redistest.Says("connected_slaves:1"))
	want(t, examine(t, rdb, o), "replicas", doctor.OK, "min-replicas-to-write is 1")
}
