package verify

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/wire"
	"github.com/lockmw/go/lockmw"
)

// A Cost is the time of an operation.
type Cost struct {
	Count  int     `json:"count"` // 0: not measured
	Median float64 `json:"median_ms"`
	P99    float64 `json:"p99_ms"`
}

func costOf(took []time.Duration) Cost {
	if len(took) == 0 {
		return Cost{}
	}
	slices.Sort(took)
	at := func(part float64) float64 {
		d := took[min(int(part*float64(len(took))), len(took)-1)]
		return float64(d.Microseconds()) / 1000
	}
	return Cost{Count: len(took), Median: at(0.5), P99: at(0.99)}
}

const (
	costPairs     = 100
	costHandOvers = 30
	costWaits     = 20
	costTime      = 3 * time.Second // for each
)

// A meter measures costs with connections of its own, within the budget.
type meter struct {
	run    *run
	budget *budget
	rdb    redis.UniversalClient
}

func (r *run) newMeter(cost time.Duration) (*meter, error) {
	m := &meter{run: r, budget: newBudget(cost, r.o.Share*scriptShare)}
	rdb, err := r.o.Connect(r.o.Address, func(dial Dial) *wire.Wire {
		w := wire.New(dial)
		watchScripts(w, m.budget, r.keys.add)
		return w
	})
	m.rdb = rdb
	return m, err
}

// pairs measures taking and releasing a free lock. It fails if the server cannot take locks at all.
func (m *meter) pairs(ctx context.Context) ([]time.Duration, error) {
	locks, err := lockmw.New(m.rdb, m.run.setup.options()...)
	if err != nil {
		return nil, err
	}
	defer locks.Close()
	started := time.Now()
	return doctor.TimePairs(ctx, locks, lockmw.Key("cost", rand.Text()), func(n int) bool {
		return m.budget.wait(ctx) && n < costPairs && (n < 9 || time.Since(started) < costTime)
	})
}

// handOvers measures the time from a release to the grant in another process.
func (m *meter) handOvers(ctx context.Context) ([]time.Duration, error) {
	var two [2]*lockmw.Client
	for i := range two {
		locks, err := lockmw.New(m.rdb, m.run.setup.options()...)
		if err != nil {
			return nil, err
		}
		defer locks.Close() //nolint:gocritic // there are two
		two[i] = locks
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	started := time.Now()
	return doctor.TimeHandOvers(ctx, two, lockmw.Key("cost", rand.Text()), func(n int) bool {
		return m.budget.wait(ctx) && n < costHandOvers && (n < 5 || time.Since(started) < costTime)
	})
}

// waits measures WAIT for one replica, after a write. It measures nothing if there is no replica or WAIT is refused.
func (m *meter) waits(ctx context.Context, nodes []node) (took []time.Duration) {
	if !slices.ContainsFunc(nodes, func(n node) bool { return n.replicas > 0 }) {
		return nil
	}
	key := m.run.o.Prefix + ":wait"
	m.run.keys.add([]string{key})
	client, _ := m.rdb.(*redis.Client)
	if cluster, ok := m.rdb.(*redis.ClusterClient); ok {
		client, _ = cluster.MasterForKey(ctx, key) // nil if there is none
	}
	if client == nil {
		return nil
	}
	conn := client.Conn()
	defer conn.Close()
	started := time.Now()
	for range costWaits {
		if conn.Set(ctx, key, 1, time.Minute).Err() != nil || time.Since(started) > costTime {
			return took
		}
		asked := time.Now()
		if n, err := conn.Wait(ctx, 1, time.Second).Result(); err != nil || n < 1 {
			return took
		}
		took = append(took, time.Since(asked))
		pause.For(ctx, 10*time.Millisecond)
	}
	return took
}
