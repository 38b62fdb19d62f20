package protocol

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

// Random executions of the model's scripts and of the engine's give the same answers, and leave the same state behind.
func TestScriptsMatchTheModel(t *testing.T) {
	race.FindsNothing(t)
	rdb := redistest.Redis(t).NewClient(t)
	checks := 0
	for _, most := range []int{0, 1, 2} {
		t.Run(fmt.Sprintf("%d readers", most), func(t *testing.T) {
			scripts := scriptsFor(most)
			rapid.Check(t, func(rt *rapid.T) {
				checks++
				w := &twin{
					T: rt, rdb: rdb, scripts: scripts, key: fmt.Sprintf("%s:{%d}", t.Name(), checks), head: 1_000_000,
					protocol: system{maxAdmitted: most, oneBatcher: true}, promised: make(map[ident]time.Duration),
					behind: make(map[ident]int), batches: make(map[ident]int),
				}
				rt.Repeat(map[string]func(*rapid.T){
					"":          w.compare,
					"acquire":   w.acquire,
					"poll":      w.poll,
					"peek":      w.peek,
					"release":   w.release,
					"downgrade": w.downgrade,
					"cancel":    w.cancel,
					"renew":     w.renew,
					"tell":      w.tell,
					"expire":    w.expire,
					"end place": w.endPlace,
					"age":       w.age,
				})
			})
		})
	}
}

const (
	hour   = 3_600_000 // ms
	window = hour / 2  // accept window of a grant
)

// scriptsFor returns the scripts, with times that do not run out during a test. An execution admits at most this many readers;
// 0: the default.
func scriptsFor(most int) map[string]*transport.Script {
	p := script.DefaultParams(true)
	p.AcceptWindow, p.QueueTTL = window*time.Millisecond, hour*time.Millisecond
	if most > 0 {
		p.MaxAdmitted = most
	}
	return script.NewSet(p).All()
}

// A twin is a lock on the server and its model.
type twin struct {
	*rapid.T
	rdb     *redis.Client
	scripts map[string]*transport.Script
	key     string
	head    int // the lowest place in the queue

	protocol system
	state    state
	counter  token                   // the model's, at the last comparison
	fence    int64                   // the server's
	promised map[ident]time.Duration // how long a hold would last
	behind   map[ident]int           // how many calls wait behind an id in its process, as the scripts know
	tells    int
	batches  map[ident]int // how many calls share the grant of an id

	hadReaders bool // a reader waited at the last comparison
}

func (w *twin) done(id ident) string { return fmt.Sprintf("%s:done:%v", w.key, id) }

// run ages tickets and processes as the model does, and runs a script. It returns the answer, and the first number in it.
func (w *twin) run(name string, more []string, args ...any) (first any, answer []any) {
	ctx := w.Context()
	tickets, alive, now := w.key+":tickets", w.key+":alive", w.now()
	fields := []any{"#last", now, "#since", now - hour}
	for _, t := range w.state.queue {
		if t.id == nobody {
			continue
		}
		seen, queued := fmt.Sprint("-", now), int64(1)
		if w.state.hasTicketOf(&w.protocol, t.id, true) { // its process was not seen, but may have queued it just now
			if seen = "-1"; !t.unseen {
				queued = now * 1000
			}
		}
		fields = append(fields, w.inbox(t.id), seen)
		text := w.rdb.HGet(ctx, tickets, t.id.String()).Val()
		w.check(w.rdb.HSet(ctx, tickets, t.id.String(), scripttest.QueuedAt(text, queued)).Err())
	}
	w.check(w.rdb.HSet(ctx, alive, fields...).Err())
	keys := append([]string{w.key, w.key + ":queue", tickets, w.key + ":fence", w.key + ":readqueue", alive}, more...)
	value, err := w.rdb.Eval(ctx, w.scripts[name].Source, keys, args...).Result()
	w.check(err)
	if list, ok := value.([]any); ok {
		return list[0], list
	}
	return value, nil
}

func (w *twin) check(err error) {
	if err != nil {
		w.Fatal(err)
	}
}

func (w *twin) want(what string, got any, want outcome, numbers ...int64) {
	if n, ok := got.(int64); !ok || !slices.Contains(numbers, n) {
		w.Errorf("%s: the server answers %v, the model %v", what, got, names[want])
	}
}

var names = map[outcome]string{
	granted: "granted", inQueue: "queued", busy: "busy", refused: "refused", gone: "gone", notHeld: "not held", asItWas: "as it was",
}

// runAgain is the answer to an acquire that must run again to admit the rest of the readers.
const runAgain = 2

// The number of an id says what it is for. Ids that keep their place share one kept place.
const (
	toWrite = 1 + iota
	toRead
	toKeep
	toBatch // in batches: all of one process
)

// ids returns the ids in use. Only two of them keep their place: Redis orders tickets at the same place by name.
func ids() []ident {
	return []ident{
		newIdent(0, toWrite), newIdent(1, toWrite), newIdent(0, toRead), newIdent(1, toRead), newIdent(2, toRead),
		newIdent(0, toKeep), newIdent(1, toKeep),
		newIdent(0, toBatch), newIdent(1, toBatch), newIdent(2, toBatch),
	}
}

func drawID(t *rapid.T, name string) ident { return rapid.SampledFrom(ids()).Draw(t, name) }

func (w *twin) acquire(t *rapid.T) {
	id := drawID(t, "id")
	c := command{
		verb: acquire, id: id, wait: rapid.Bool().Draw(t, "wait") || w.state.index(id) >= 0, reads: id.number() == toRead, keeps: id.number() == toKeep,
		batches: id.number() == toBatch,
	}
	if f := drawID(t, "predecessor"); f != c.id && rapid.Bool().Draw(t, "takes a place") {
		c.predecessor, c.lost, c.mark = f, c.wait && rapid.Bool().Draw(t, "lost"), rapid.Bool().Draw(t, "mark")
	}
	args := []any{c.id.String(), hour, w.inbox(c.id), "owner", "0"}
	if c.wait {
		args[4] = "1"
	}
	if c.wait && c.batches {
		args[4] = "1r:secret"
	}
	behind, held := w.drawBehind(t), w.state.has(c.id)
	special := c.predecessor != nobody || c.keeps || behind > 0
	mode := map[int]string{toWrite: "write", toRead: "read", toKeep: "fair", toBatch: "fair"}[id.number()]
	if special || c.reads || c.batches || rapid.Bool().Draw(t, "extras") {
		args = append(args, mode, 1, "")
	}
	if special {
		args = append(args, "", "", "", w.place(c.lost), w.ms(c.mark), w.ms(c.keeps)) // no vote
	}
	if c.predecessor != nobody {
		args[10] = c.predecessor.String()
	}
	if behind > 0 {
		args = append(args, 1+behind)
	}
	if i := slices.IndexFunc(w.state.queue[:], func(t ticket) bool { return t.id != nobody && t.place == w.state.kept }); i >= 0 {
		c.front = c.id.String() < w.state.queue[i].id.String() // the order in Redis
	}
	var list []any
	first := any(int64(runAgain))
	var a answer
	for first == int64(runAgain) {
		first, list = w.run("acquire", []string{w.done(c.id), w.done(c.predecessor), w.kept()}, args...)
		a = w.protocol.runAcquire(&w.state, c)
		if first == int64(runAgain) && w.state.admit == 0 && a.outcome != granted {
			w.Fatal("acquire has to run again, unlike in the model")
		}
	}
	if !held && a.outcome != refused {
		w.behind[c.id] = behind
	}
	switch a.outcome {
	case granted:
		if _, token := first.(string); !token {
			w.want("acquire", first, granted, 1)
		}
		w.promise(c.id, hour)
	case refused:
		w.want("acquire", first, refused, -1)
	default:
		w.want("acquire", first, a.outcome, 0)
		w.wantStamp(list)
	}
}

// place returns a place before all others for a ticket that replaces a lost one.
func (w *twin) place(lost bool) string {
	if !lost {
		return ""
	}
	w.head--
	return fmt.Sprint(w.head)
}

func (w *twin) kept() string { return w.key + ":kept" }

// ms returns how long something is remembered.
func (w *twin) ms(remember bool) int {
	if remember {
		return hour
	}
	return 0
}

// wantStamp checks the counter in a "queued" answer.
func (w *twin) wantStamp(answer []any) {
	fence, err := w.rdb.Get(w.Context(), w.key+":fence").Int64()
	if err != nil || len(answer) < 2 || answer[1] != fence {
		w.Errorf("the counter is %d, %v; the answer %v", fence, err, answer)
	}
}

func (w *twin) poll(t *rapid.T) {
	id := drawID(t, "id")
	behind := w.drawBehind(t)
	waits := w.state.index(id) >= 0
	_, answer := w.run("poll", nil, id.String(), hour, 1+behind)
	if waits {
		w.behind[id] = behind
	}
	got := answer[3].([]any)[0].([]any)[0]
	switch a := w.protocol.runPoll(&w.state, id); a.outcome {
	case granted:
		w.want("poll", got, granted, 1)
		w.promise(id, hour)
	case inQueue:
		w.want("poll", got, inQueue, 0)
		w.wantStamp(answer)
	default:
		w.want("poll", got, gone, -1)
	}
}

func (w *twin) release(t *rapid.T) {
	id := drawID(t, "id")
	c := command{verb: release, id: id, mark: rapid.Bool().Draw(t, "mark"), keeps: id.number() == toKeep}
	args := []any{c.id.String()}
	if c.mark || c.keeps {
		args = append(args, 0, w.ms(c.mark), 0)
	}
	if c.keeps {
		args[3] = hour
	}
	if c.had = w.drawServed(t, c.id); c.had[0] != nobody {
		for len(args) < 4 {
			args = append(args, 0)
		}
		args = append(args, c.had.args()...)
	}
	got, _ := w.run("release", []string{w.done(c.id), w.kept()}, args...)
	if w.protocol.runRelease(&w.state, c) {
		w.want("release", got, granted, 1, 2)
	} else {
		w.want("release", got, notHeld, 0)
	}
}

func (w *twin) downgrade(t *rapid.T) {
	id := drawID(t, "id")
	got, _ := w.run("downgrade", nil, id.String())
	if w.protocol.runDowngrade(&w.state, id) {
		w.want("downgrade", got, granted, 1, 2)
	} else {
		w.want("downgrade", got, notHeld, 0)
	}
}

func (w *twin) cancel(t *rapid.T) {
	id := drawID(t, "id")
	c := command{verb: cancel, id: id, mark: rapid.Bool().Draw(t, "mark"), keeps: id.number() == toKeep}
	keep := w.ms(c.keeps)
	if c.keeps && rapid.Bool().Draw(t, "for a release") {
		c.served, keep = true, -keep
	}
	token := 0
	if c.served && (w.state.holder == id || rapid.Bool().Draw(t, "newer than the place")) { // every hold is newer than its place
		c.since, token = w.state.lastPlace(), 1<<52
	}
	c.had = w.drawServed(t, id)
	w.run("cancel", []string{w.done(c.id), w.kept()}, append([]any{c.id.String(), w.ms(c.mark), keep, token}, c.had.args()...)...)
	w.protocol.runCancel(&w.state, c)
}

// drawServed draws the calls to which the hold of an id was passed.
func (w *twin) drawServed(t *rapid.T, id ident) (had idents) {
	for _, other := range ids() {
		if id.number() == toBatch && other.number() == toBatch && other != id && rapid.Bool().Draw(t, "served") {
			had = had.with(other)
		}
	}
	return had
}

func (l idents) args() (args []any) {
	for _, id := range l[:filled(l[:])] {
		args = append(args, id.String())
	}
	return args
}

func (w *twin) renew(t *rapid.T) {
	id := drawID(t, "id")
	got, _ := w.run("renew", nil, id.String(), 2*hour)
	if a := w.protocol.runRenew(&w.state, id); a.outcome == granted {
		w.want("renewal", got, granted, 1, 2)
		w.promise(id, 2*hour)
	} else {
		w.want("renewal", got, notHeld, 0)
	}
}

func (w *twin) drawBehind(t *rapid.T) int {
	return rapid.SampledFrom([]int{0, 0, 1, 9}).Draw(t, "calls behind it")
}

// tell reports the calls of a process, which the model leaves out.
func (w *twin) tell(t *rapid.T) {
	id, behind := drawID(t, "id"), w.drawBehind(t)
	w.tells++
	waited := rapid.SampledFrom([]int{0, 1500}).Draw(t, "waited")
	got, _ := w.run("report_waiters", nil, id.String(), behind, w.tells, waited)
	if w.state.holder != id {
		w.want("telling", got, notHeld, 0)
		return
	}
	w.want("telling", got, granted, 1)
	w.behind[id] = behind
}

// expire ends a hold. After the last reader's the key is gone.
func (w *twin) expire(t *rapid.T) {
	id := drawID(t, "id")
	if !w.state.has(id) {
		t.Skip("does not hold the lock")
	}
	w.state.expire(id)
	if w.state.isRead() {
		w.check(w.rdb.HDel(w.Context(), w.key, "reader:"+id.String()).Err())
	} else {
		w.check(w.rdb.Del(w.Context(), w.key).Err())
	}
}

func (w *twin) age(t *rapid.T) {
	w.state.see(&w.protocol, drawID(t, "id"), false)
}

// endPlace marks the kept place as ended. If it expired instead, the cancel of a call that has waited for longer would keep it
// again; the model has no such calls.
func (w *twin) endPlace(*rapid.T) {
	w.state.kept = 0
	w.check(w.rdb.Set(w.Context(), w.kept(), 0, time.Hour).Err())
}
