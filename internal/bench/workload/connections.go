package workload

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/wire"
)

// connections: n goroutines in each of two processes lock and unlock, two for each key. The connections of the first process are
// counted after its first lock and in the end.
func connections(n int) Workload {
	return Workload{
		Name: SizeName("connections", n), About: fmt.Sprintf("the connections of a process with %d goroutines that compete with another process", n),
		Processes: 2, Keys: n, Wait: library.Short, Once: true, Long: n != connectionsLeast && n != connectionsMost, Runs: only("lockmw"),
		Window: func(d time.Duration) time.Duration { return max(d, 500*time.Millisecond) },
		work:   func(w *Worker) error { return w.connect(n) },
	}
}

// connectionsLeast and connectionsMost are the numbers of goroutines of a quick run.
const (
	connectionsLeast = 1
	connectionsMost  = 64
)

// The figures of connections.
const (
	FirstConns    = "conns_of_first_lock" // and of its release
	FirstCommands = "cmds_of_first_lock"  // the same; commands of lockmw
	Conns         = "conns"               // in the end
	ConnsPerNode  = "conns_per_node"      // of a Cluster
)

// connect counts connections while goroutines compete.
func (w *Worker) connect(n int) error {
	conns := wire.New(func(ctx context.Context, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	})
	w.Config.Dial = conns.Dial
	l, sent, err := w.openCounted()
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := w.context()
	defer cancel()
	hold, err := l.Lock(ctx, fmt.Sprint(w.Key, ":first:", w.Config.Index))
	if err != nil {
		return err
	}
	if err := hold.Unlock(); err != nil {
		return err
	}
	first := map[string]float64{FirstConns: float64(conns.Conns()), FirstCommands: float64(sent.commands.Load())}
	loopers := make([]looper, n)
	for g := range loopers {
		loopers[g] = looper{load: load{waits: true}, page: w.page, locker: l, cell: g, key: w.key(g)}
	}
	if err := w.start(); err != nil {
		return err
	}
	if err := loopAll(ctx, loopers, w.Window); err != nil {
		return err
	}
	r := &Report{Elapsed: w.Window}
	for g := range loopers {
		r.Latency.Record(loopers[g].times...)
		r.Counts = append(r.Counts, loopers[g].count)
		r.Pairs += int64(len(loopers[g].times)) - loopers[g].stranded
		r.Stranded += loopers[g].stranded
	}
	if w.Config.Index == 0 {
		r.More = first
		r.More[Conns] = float64(conns.Conns())
		if nodes := len(w.Config.Nodes); nodes > 0 {
			r.More[ConnsPerNode] = r.More[Conns] / float64(nodes)
		}
	}
	return w.finish(r)
}
