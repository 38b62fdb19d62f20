package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/transport"
)

// A node is what INFO tells about a master.
type node struct {
	addr, run     string
	software      string // with the version
	replicas      int
	scripts, busy int64 // calls of EVALSHA and EVAL, and their time in µs
}

// masters asks all masters for INFO.
func masters(ctx context.Context, rdb redis.UniversalClient) (nodes []node, err error) {
	var mu sync.Mutex
	ask := func(ctx context.Context, c *redis.Client) error {
		info := make(map[string]string)
		for _, section := range []string{"server", "replication", "commandstats"} { // together only since Redis 7
			fields, err := transport.ReadInfo(ctx, c, section)
			if err != nil {
				return err
			}
			maps.Copy(info, fields)
		}
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, nodeOf(c.Options().Addr, info))
		return nil
	}
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, ask)
	case *redis.Client:
		err = ask(ctx, c)
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.addr, b.addr) })
	return nodes, err
}

// nodeOf returns a node with these fields of INFO.
func nodeOf(addr string, info map[string]string) node {
	n := node{addr: addr, run: info["run_id"]}
	if name, version := transport.Software(info); version != "" {
		n.software = strings.ToUpper(name[:1]) + name[1:] + " " + version
	}
	n.replicas, _ = strconv.Atoi(info["connected_slaves"]) // a number
	for _, command := range []string{"evalsha", "eval"} {
		var calls, busy int64
		if _, err := fmt.Sscanf(info["cmdstat_"+command], "calls=%d,usec=%d,", &calls, &busy); err == nil {
			n.scripts, n.busy = n.scripts+calls, n.busy+busy
		}
	}
	return n
}

// A Server describes what was verified.
type Server struct {
	Software string `json:"software"` // with the version; "unknown" if the user may not run INFO
	Topology string `json:"topology"`
}

// describe returns a description. sentinel says that the address is one of Sentinels.
func describe(nodes []node, rdb redis.UniversalClient, sentinel bool) Server {
	versions := make(map[string]bool)
	replicas := 0
	for _, n := range nodes {
		versions[n.software] = true
		replicas += n.replicas
	}
	delete(versions, "")
	s := Server{Software: cmp.Or(strings.Join(slices.Sorted(maps.Keys(versions)), ", "), "unknown"), Topology: "one server"}
	if _, ok := rdb.(*redis.ClusterClient); ok {
		s.Topology = fmt.Sprintf("a Cluster of %d masters", len(nodes))
	} else if sentinel {
		s.Topology = "a master behind Sentinels"
	}
	switch {
	case replicas == 1:
		s.Topology += " with 1 replica"
	case replicas > 0:
		s.Topology += fmt.Sprintf(" with %d replicas", replicas)
	}
	return s
}

// A watch asks the server regularly whether it answers, and whether it is still the same. It is safe for concurrent use.
type watch struct {
	rdb redis.UniversalClient

	mu       sync.Mutex
	slow     judge.Intervals // times without an answer, and after it
	silent   time.Time       // since when the server has not answered; zero if it answers
	err      error           // why
	runs     string
	first    []node // the first answer, and the last one
	last     []node
	seen     map[string]bool // values of runs
	returns  int             // how often runs was what it had been before
	changes  []time.Duration // when another process or another master answered, by the machine's clock
	mayInfo  bool
	lastInfo time.Time
	asked    atomic.Int64 // when it was asked and has not answered yet, a time of the machine; 0: it has answered
}

const (
	askEvery  = 100 * time.Millisecond
	infoEvery = 500 * time.Millisecond
	askSlow   = 100 * time.Millisecond // slower answers are a delay of the server
)

func newWatch(rdb redis.UniversalClient) *watch {
	return &watch{rdb: rdb, seen: make(map[string]bool), mayInfo: true}
}

// run watches until ctx ends.
func (w *watch) run(ctx context.Context) {
	for pause.For(ctx, askEvery) {
		w.ask(ctx)
	}
}

// ask asks once.
func (w *watch) ask(ctx context.Context) {
	started := time.Now()
	w.asked.Store(int64(judge.MachineTime(started)))
	defer w.asked.Store(0)
	var nodes []node
	var err error
	info := w.mayInfo && time.Since(w.lastInfo) >= infoEvery
	if info {
		w.lastInfo = started
		nodes, err = masters(ctx, w.rdb)
		if transport.IsReply(err) && !transport.IsTemporary(err) { // the user may not, or a proxy does not know INFO
			w.mayInfo, err = false, nil
		}
	} else {
		err = w.rdb.Ping(ctx).Err()
	}
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(started) > askSlow || err != nil {
		w.slow.Begin(judge.MachineTime(started))
		w.slow.End(judge.MachineTime(now.Add(askEvery)))
	}
	w.err = err
	switch {
	case err == nil:
		w.silent = time.Time{}
	case w.silent.IsZero():
		w.silent = started
	}
	if err == nil && info && w.mayInfo {
		w.compare(nodes, judge.MachineTime(now))
	}
}

// compare notes a restart or a fail-over; w.mu is held.
func (w *watch) compare(nodes []node, at time.Duration) {
	var runs []string
	for _, n := range nodes {
		runs = append(runs, n.run)
	}
	slices.Sort(runs)
	now := strings.Join(runs, " ")
	w.last = nodes
	if w.seen[now] && now == w.runs {
		return
	}
	if w.runs != "" {
		w.changes = append(w.changes, at)
	}
	if w.seen[now] {
		w.returns++
	}
	w.first, w.runs, w.seen[now] = nodes, now, true // the counters of other servers begin again
}

// several reports whether different servers answer at one address: they take turns, as no fail-over does.
func (w *watch) several() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isSeveral()
}

func (w *watch) isSeveral() bool { return w.returns >= 3 }

// cost returns how long the servers work for a script on average; 0 if that is unknown.
func (w *watch) cost() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return costOfScript(w.first, w.last)
}

// costOfScript returns how long the servers worked for a script between two answers; 0 if that is unknown.
func costOfScript(before, after []node) time.Duration {
	var scripts, busy int64
	for _, n := range after {
		scripts, busy = scripts+n.scripts, busy+n.busy
	}
	for _, n := range before {
		scripts, busy = scripts-n.scripts, busy-n.busy
	}
	if scripts <= 0 || busy <= 0 {
		return 0
	}
	return max(time.Duration(busy)*time.Microsecond/time.Duration(scripts), 5*time.Microsecond)
}

// restarts returns how often the servers changed.
func (w *watch) restarts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isSeveral() {
		return 0
	}
	return len(w.changes)
}

// outage returns how long the server has not answered, and why.
func (w *watch) outage() (time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent.IsZero() {
		return 0, nil
	}
	return time.Since(w.silent), w.err
}

// delays returns when the server was slow, up to now.
func (w *watch) delays() []judge.Interval {
	all, now := w.slow.All(), judge.MachineNow()
	if asked := time.Duration(w.asked.Load()); asked > 0 && now-asked > askSlow {
		all = append(all, judge.Interval{From: asked, To: now})
	}
	return all
}

// late returns how much of a time the server was slow.
func (w *watch) late(from, to time.Duration) time.Duration { return judge.Within(from, to, w.delays()) }

// troubled reports whether the server was slow for long, or changed, between two times of the machine or shortly before.
func (w *watch) troubled(from, to time.Duration) bool {
	return w.late(from, to) > slack/2 || w.changed(from, to, slack)
}

// changed reports whether the servers changed in this time, or in the given time before or after it.
func (w *watch) changed(from, to, around time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.isSeveral() && slices.ContainsFunc(w.changes, func(at time.Duration) bool { return from-around <= at && at <= to+around })
}
