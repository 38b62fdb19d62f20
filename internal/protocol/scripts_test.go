package protocol

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/redistest"
)

// The model's scripts are the engine's: random runs of both give the same answers, and leave the same
// behind.
func TestScriptsDoWhatTheModelSays(t *testing.T) {
	scripts := readScripts(t)
	rdb := redistest.Redis(t).NewClient(t)
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		checks++
		w := &twin{T: rt, rdb: rdb, scripts: scripts, key: fmt.Sprintf("%s:{%d}", t.Name(), checks)}
		rt.Repeat(map[string]func(*rapid.T){
			"":        w.compare,
			"acquire": w.acquire,
			"poll":    w.poll,
			"release": w.release,
			"cancel":  w.cancel,
			"renew":   w.renew,
			"expire":  w.expire,
			"age":     w.age,
		})
	})
}

// readScripts assembles the engine's scripts, with times that do not run out during a test.
func readScripts(t *testing.T) map[string]string {
	read := func(name string) string {
		text, err := os.ReadFile("../engine/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	times := "local POLL, ACCEPT, QUEUE_TTL, BUDGET, SINGLE = 750, 3600000, 3600000, 32, true\n"
	parts := strings.NewReplacer("--@hold\n", times+read("hold"), "--@settle\n", read("settle"))
	scripts := make(map[string]string)
	for _, name := range []string{"acquire", "poll", "release", "cancel", "renew"} {
		scripts[name] = parts.Replace(read(name))
	}
	return scripts
}

const hour = 3_600_000 // ms

// A twin is a lock at the server and its model.
type twin struct {
	*rapid.T
	rdb     *redis.Client
	scripts map[string]string
	key     string
	head    int // the lowest place in the queue

	protocol system
	state    state
	counter  token // the model's, at the last comparison
	fence    int64 // the server's
}

func (w *twin) done(id ident) string { return fmt.Sprintf("%s:done:%v", w.key, id) }

// run runs a script, and returns its answer and the first number in it. Before, tickets are made as
// old as the model has them.
func (w *twin) run(name string, done []string, args ...any) (first any, answer []any) {
	ctx := w.Context()
	tickets := w.key + ":tickets"
	for _, t := range w.state.queue {
		if t.id != nobody {
			seen := "-9999999999999"
			if t.unseen {
				seen = "-1"
			}
			w.check(w.rdb.HSet(ctx, tickets, "@"+t.id.String(), seen).Err())
		}
	}
	w.check(w.rdb.HDel(ctx, tickets, "#touched", "#amnesty").Err())
	keys := append([]string{w.key, w.key + ":queue", tickets, w.key + ":fence"}, done...)
	value, err := w.rdb.Eval(ctx, w.scripts[name], keys, args...).Result()
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

func (w *twin) want(what string, got any, want kind, numbers ...int64) {
	if n, ok := got.(int64); !ok || !slices.Contains(numbers, n) {
		w.Errorf("%s: the server answers %v, the model %v", what, got, names[want])
	}
}

var names = map[kind]string{
	granted: "granted", inQueue: "queued", busy: "busy", refused: "refused", gone: "gone", notHeld: "not held",
}

func drawID(t *rapid.T, name string) ident {
	return newIdent(rapid.IntRange(0, maxProcesses-1).Draw(t, name+"'s process"), rapid.IntRange(1, 2).Draw(t, name))
}

func (w *twin) acquire(t *rapid.T) {
	c := command{verb: acquire, id: drawID(t, "id"), wait: rapid.Bool().Draw(t, "wait")}
	if f := drawID(t, "former"); f != c.id && rapid.Bool().Draw(t, "takes a place") {
		c.former, c.lost, c.mark = f, rapid.Bool().Draw(t, "lost"), rapid.Bool().Draw(t, "mark")
	}
	args := []any{c.id.String(), hour, "inbox", "owner", "-0"}
	if c.wait {
		args[4] = "-1"
	}
	if c.former != nobody || rapid.Bool().Draw(t, "extras") {
		args = append(args, 1, "exclusive", "")
	}
	if c.former != nobody {
		args = append(args, c.former.String(), w.place(c.lost), hour)
	}
	first, answer := w.run("acquire", append([]string{w.done(c.id)}, w.marks(c.mark, c.former)...), args...)
	switch a := w.protocol.runAcquire(&w.state, c); a.kind {
	case granted:
		if _, token := first.(string); !token {
			w.want("acquire", first, granted, 1)
		}
	case refused:
		w.want("acquire", first, refused, -1)
	default:
		w.want("acquire", first, a.kind, 0)
		w.wantStamp(answer)
	}
}

// place is that of a ticket that got lost: before all others.
func (w *twin) place(lost bool) string {
	if !lost {
		return ""
	}
	w.head--
	return fmt.Sprint(w.head)
}

// marks are the keys of the ids to be marked.
func (w *twin) marks(mark bool, id ident) []string {
	if mark {
		return []string{w.done(id)}
	}
	return nil
}

// wantStamp looks for the counter in an answer that says "queued".
func (w *twin) wantStamp(answer []any) {
	fence, err := w.rdb.Get(w.Context(), w.key+":fence").Int64()
	if err != nil || len(answer) < 2 || answer[1] != fence {
		w.Errorf("the counter is %d, %v; the answer %v", fence, err, answer)
	}
}

func (w *twin) poll(t *rapid.T) {
	id := drawID(t, "id")
	_, answer := w.run("poll", nil, "-", id.String(), hour)
	got := answer[2].([]any)[0].([]any)[0]
	switch a := w.protocol.runPoll(&w.state, id); a.kind {
	case granted:
		w.want("poll", got, granted, 1)
	case inQueue:
		w.want("poll", got, inQueue, 0)
		w.wantStamp(answer)
	default:
		w.want("poll", got, gone, -1)
	}
}

func (w *twin) release(t *rapid.T) {
	c := command{verb: release, id: drawID(t, "id"), mark: rapid.Bool().Draw(t, "mark")}
	args := []any{c.id.String()}
	if c.mark {
		args = append(args, 0, hour)
	}
	got, _ := w.run("release", w.marks(c.mark, c.id), args...)
	if w.protocol.runRelease(&w.state, c) {
		w.want("release", got, granted, 1, 2)
	} else {
		w.want("release", got, notHeld, 0)
	}
}

func (w *twin) cancel(t *rapid.T) {
	c := command{verb: cancel, id: drawID(t, "id"), mark: rapid.Bool().Draw(t, "mark")}
	w.run("cancel", w.marks(c.mark, c.id), c.id.String(), hour)
	w.protocol.runCancel(&w.state, c)
}

func (w *twin) renew(t *rapid.T) {
	id := drawID(t, "id")
	got, _ := w.run("renew", nil, id.String(), hour)
	if a := w.protocol.runRenew(&w.state, id); a.kind == granted {
		w.want("renewal", got, granted, 1, 2)
	} else {
		w.want("renewal", got, notHeld, 0)
	}
}

func (w *twin) expire(*rapid.T) {
	w.check(w.rdb.Del(w.Context(), w.key).Err())
	if w.state.holder != nobody {
		w.state.expire()
	}
}

func (w *twin) age(t *rapid.T) {
	if i := w.state.place(drawID(t, "id")); i >= 0 {
		w.state.queue[i].unseen = true
	}
}

// compare looks at what the server has stored.
func (w *twin) compare(*rapid.T) {
	w.state.pushes = [maxPushes]push{}
	w.compareHolder()
	w.compareCounter()
	w.compareDone()
}

func (w *twin) compareHolder() {
	holder, err := w.rdb.HGet(w.Context(), w.key, "id").Result()
	if err != nil && err != redis.Nil {
		w.Fatal(err)
	}
	queue, err := w.rdb.ZRange(w.Context(), w.key+":queue", 0, -1).Result()
	w.check(err)
	wantHolder, wantQueue := "", []string{}
	if w.state.holder != nobody {
		wantHolder = w.state.holder.String()
	}
	for _, t := range w.state.queue {
		if t.id != nobody {
			wantQueue = append(wantQueue, t.id.String())
		}
	}
	if holder != wantHolder || !slices.Equal(queue, wantQueue) {
		w.Errorf("the server has %q, then %q; the model %q, then %q", holder, queue, wantHolder, wantQueue)
	}
}

func (w *twin) compareCounter() {
	fence, err := w.rdb.Get(w.Context(), w.key+":fence").Int64()
	if err != nil && err != redis.Nil {
		w.Fatal(err)
	}
	if w.state.counter > w.counter != (fence > w.fence) || fence < w.fence {
		w.Errorf("the server's counter went from %d to %d, the model's from %d to %d", w.fence, fence, w.counter, w.state.counter)
	}
	w.counter, w.fence = w.state.counter, fence
}

func (w *twin) compareDone() {
	for i := range maxProcesses {
		for n := 1; n <= 2; n++ {
			id := newIdent(i, n)
			if n, err := w.rdb.Exists(w.Context(), w.done(id)).Result(); err != nil || (n == 1) != w.state.isDone(id) {
				w.Errorf("%v is marked as over: %v by the server, %v; %v by the model", id, n == 1, err, w.state.isDone(id))
			}
		}
	}
}
