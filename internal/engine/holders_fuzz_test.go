package engine

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

// Two processes lock and wait while a stranger writes to their keys: there are never two holders unless both
// read, tokens increase, every call ends with a documented error or a hold, and no process sends commands
// without a pause. The stories have the strangers of a stage, and these lines:
//
//	lock a 500     a waits for the lock for 500 ms; a to c are in one process, d to f in another
//	read a 500 · write a 500 · keep a 500     to read, to write, and by a ticket t
//	stop a         its context ends
//	down a         makes what it has a hold for reading
//	unlock a · later 5000
func FuzzHolders(f *testing.F) {
	defer race.OneProcessor()()
	for i, story := range holderStories {
		f.Add(story, uint64(0))
		f.Add("", uint64(i+1))
	}
	f.Fuzz(func(t *testing.T, story string, seed uint64) {
		if seed != 0 {
			story += "\n" + scripttest.RandomStory(seed, holderLine)
		}
		defer func() {
			if t.Failed() {
				t.Logf("the story:\n%s", story)
			}
		}()
		synctest.Test(t, func(t *testing.T) { newPlay(t).play(story) })
	})
}

var holderStories = []string{
	"read a 0\nread b 0\nread d 500\nwrite e 60000\nread c 60000\nunlock a\nunlock b\nunlock d\nlater 200\nunlock e\nlater 200\nunlock c",
	"write a 0\nread b 60000\nread d 60000\nwrite e 60000\ndown a\nlater 100\nread f 500\nunlock a\nunlock b\nunlock d\nlater 100\nunlock e",
	"read a 0\nwrite d 60000\nread b 60000\nstop d\nlater 100\nread e 500\nunlock a\nunlock b",
	"keep a 0\nkeep d 300\nwrite e 60000\nlater 500\nkeep d 60000\nunlock a\nlater 100\nunlock d\nunlock e",
	"read a 0\nread b 0\nwrite d 60000\nH del\nlater 2000\nunlock a\nread c 500\nlater 2000\nunlock d",
	"read a 0\nread d 0\nlater 31000\nR zadd 1 x\nwrite e 60000\nread b 60000\nR del\nlater 4000\nunlock a\nunlock d\nlater 4000",
	"write a 0\nread b 60000\nR rpush x\nlater 1000\nunlock a\nlater 1000\nread d 500\nR del\nlater 1000",
	"read a 0\nwrite d 60000\nT del\nQ zrem #readers\nread b 60000\nlater 4000\nunlock a\nlater 4000\nunlock d\nlater 1000",
	"lock a 0\nlock d 60000\nlock b 60000\nunlock a\nunlock b\nlater 100\nunlock d",
	"lock a 0\nlock d 60000\nH del\nlater 2000\nunlock d\nunlock a",
	"lock a 0\nlock d 60000\nH persist\nlater 5000\nH pexpire 9007199254740992\nlater 5000\nstop d",
	"H hset id x owner o token 5 inbox i since 5 mode m\nlock a 60000\nlock d 500\nlater 3000\nH del\nlater 2000\nunlock a",
	"lock a 0\nlock d 60000\nT del\nQ zadd 5 x\nlater 3000\nunlock a\nlater 5000\nunlock d",
	"lock a 0\nlock d 60000\nlock e 60000\nF set 1e300\nlater 2000\nunlock a\nlater 2000\nF del\nlock f 0\nlater 4000",
	"H hset id x owner o token 5 inbox i since 5 mode m tokens x\nlock d 500\nlater 1000\nlock a 500",
	"lock a 0\nT hset #touched x\nlock d 500\nlater 100\nunlock a\nlock b 500",
	"lock a 0\nlock d 60000\nT hset HEAD x_30000_x_x_x_x\nunlock a\nlater 3000\nlock b 500\nlater 3000",
	"lock a 0\nlock d 60000\nQ zadd 9 x\nT hset x m_30000_1_i_o_1 @x 1e300\nlater 1000\nunlock a\nunlock d\nlater 100\nlock b 60000\nlater 10000",
	"lock a 0\nlock b 60000\nlock d 60000\nH rpush x\nlater 1000\nunlock a\nlater 20000\nH del\nlater 1000",
}

// holderLine makes up a line of a play.
func holderLine(r scripttest.Teller) string {
	switch r.IntN(6) {
	case 0:
		return "later " + r.Pick("1", "100", "800", "2300", "3100", "11000", "31000", "60000")
	case 1:
		return r.Pick("stop", "unlock", "unlock", "down") + " " + r.ID()
	case 2:
		return "unlock " + r.ID()
	}
	return r.Pick("lock", "read", "read", "write", "keep") + " " + r.ID() + " " + r.Pick("0", "300", "60000", "60000", "600000")
}

const storyKey = "item:1"

// A play is a lock that two processes and a stranger use.
type play struct {
	*scripttest.Driver
	engines  [2]*Engine
	workers  map[string]*worker
	commands atomic.Int64 // since the last line

	mu      sync.Mutex
	holding map[*worker]*hold
	reading map[*worker]bool
	forfeit map[*lease]bool // a stranger has written to it
	token   int64           // the last that was given
	written int64           // to one that excludes others
}

// A worker is a caller of Acquire.
type worker struct {
	*requester
	e    *Engine
	stop context.CancelFunc // ends its wait
	done chan struct{}      // closed when that has ended
}

func newPlay(t *testing.T) *play {
	s := redistest.Piped(t)
	p := &play{
		workers: make(map[string]*worker), holding: make(map[*worker]*hold),
		reading: make(map[*worker]bool), forfeit: make(map[*lease]bool),
	}
	cfg := DefaultConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	for i := range p.engines {
		rdb := s.NewClient(t)
		rdb.AddHook(p)
		e, err := New(rdb, cfg)
		if err != nil {
			t.Fatal(err)
		}
		e.probe.Disable()
		p.engines[i] = e
	}
	p.Driver = scripttest.New(t, s.NewClient(t), storyKey)
	return p
}

func (p *play) play(story string) {
	lines := 0
	for line := range strings.Lines(story) {
		words := strings.Fields(line)
		if lines++; lines > scripttest.MaxLines || p.Failed() {
			break
		}
		if len(words) > 1 {
			p.commands.Store(0)
			p.line(words[0], words[1:])
			synctest.Wait()
		}
	}
	for _, w := range p.workers {
		w.stop()
		<-w.done
		p.unlock(w)
	}
	for _, e := range p.engines {
		_ = e.Close()
	}
	p.checkGone()
}

func (p *play) line(verb string, words []string) {
	switch {
	case scripttest.IsStranger(verb):
		p.mu.Lock()
		if verb == "H" {
			for _, h := range p.holding {
				p.forfeit[h.lease] = true
			}
		}
		if verb == "F" {
			p.token, p.written = 0, 0
		}
		p.mu.Unlock()
		p.Stranger(verb, words)
	case verb == "later":
		if ms, ok := scripttest.Number(words, 0, 1, 60_000); ok {
			time.Sleep(time.Duration(ms) * time.Millisecond) // of the bubble's time
		}
	case slices.Contains([]string{"lock", "read", "write", "keep"}, verb):
		if ms, ok := scripttest.Number(words, 1, 0, 1<<40); ok && len(words[0]) == 1 && words[0][0] >= 'a' && words[0][0] <= 'f' {
			p.lock(verb, words[0], time.Duration(ms)*time.Millisecond)
		}
	case slices.Contains([]string{"stop", "unlock", "down"}, verb):
		w := p.workers[words[0]]
		switch {
		case w == nil:
		case verb == "stop":
			w.stop()
		case verb == "down":
			p.downgrade(w)
		default:
			p.unlock(w)
		}
	}
}

func (p *play) lock(verb, name string, wait time.Duration) {
	if old := p.workers[name]; old != nil {
		select {
		case <-old.done:
		default:
			return // it waits
		}
		p.unlock(old)
	}
	w := &worker{requester: newRequester(storyKey), e: p.engines[(name[0]-'a')/3], done: make(chan struct{})}
	w.Wait = wait
	switch verb {
	case "read":
		w.Mode = core.Read
	case "write":
		w.Mode = core.Write
	case "keep":
		w.Mode, w.Place, w.KeepPlace = core.Fair, "t", 5*time.Second
	}
	ctx, cancel := context.WithCancel(p.Context())
	w.stop = cancel
	p.workers[name] = w
	go func() {
		defer close(w.done)
		g, err := w.e.Acquire(ctx, &w.Request)
		if err != nil {
			documented(p.T, err, core.ErrBusy, core.ErrWrongType)
			return
		}
		p.granted(name, w, g.(*hold))
	}()
}

// granted checks that w is the only holder, or reads with others.
func (p *play) granted(name string, w *worker, h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reads := w.Mode == core.Read
	for other, held := range p.holding {
		if other != w && !(reads && p.reading[other]) && !held.Expired() && !p.forfeit[held.lease] && !p.forfeit[h.lease] {
			p.Errorf("%s holds the lock with token %d, and token %d is held too", name, h.Token(), held.Token())
		}
	}
	if !p.forfeit[h.lease] {
		if least := p.token + 1; !reads && h.Token() < least || reads && h.Token() < p.written {
			p.Errorf("%s holds the lock with token %d after %d, and %d of a writer", name, h.Token(), p.token, p.written)
		}
		p.token = max(p.token, h.Token())
		if !reads {
			p.written = h.Token()
		}
	}
	p.holding[w], p.reading[w] = h, reads
}

func (p *play) downgrade(w *worker) {
	p.mu.Lock()
	h := p.holding[w]
	writes := h != nil && !p.reading[w] && w.Mode != core.Exclusive
	p.reading[w] = p.reading[w] || writes // from here on others may read as well
	p.mu.Unlock()
	if !writes {
		return
	}
	ctx, cancel := context.WithTimeout(p.Context(), time.Second)
	defer cancel()
	if err := h.Downgrade(ctx); err != nil {
		documented(p.T, err, core.ErrLost, core.ErrWrongType)
	}
}

func (p *play) unlock(w *worker) {
	p.mu.Lock()
	h := p.holding[w]
	delete(p.holding, w)
	p.mu.Unlock()
	if h == nil {
		return
	}
	if _, err := h.Release(time.Second); err != nil {
		documented(p.T, err, core.ErrLost, core.ErrWrongType)
	}
}

// checkGone checks that nothing of the processes is left where it can be taken away.
func (p *play) checkGone() {
	now := p.Look()
	if now.Holder.IsStrange() || now.Queue.IsStrange() || now.ReadQueue.IsStrange() || now.Tickets.IsStrange() {
		return
	}
	left := append(append(now.Queue.InOrder(), now.ReadQueue.InOrder()...), now.HolderID())
	for id := range now.Readers() {
		left = append(left, id)
	}
	for _, e := range p.engines {
		for _, id := range left {
			if strings.HasPrefix(id, string(e.idStem)) {
				p.Errorf("%s is left: %v", id, now)
			}
		}
	}
}

// count counts a command, and lets time pass when there are too many.
func (p *play) count() {
	const most = 2000 // a minute of polls by two processes is 160
	if n := p.commands.Add(1); n > most {
		if n == most+1 {
			p.Errorf("more than %d commands without an end", most)
		}
		time.Sleep(time.Second) // of the bubble's time
	}
}

// DialHook implements redis.Hook.
func (p *play) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (p *play) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.count()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (p *play) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for range cmds {
			p.count()
		}
		return next(ctx, cmds)
	}
}
