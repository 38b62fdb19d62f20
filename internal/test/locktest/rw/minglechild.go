package rw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

// Roles has the role of a child that reads and writes one key, driven by its seed.
var Roles = env.Roles{mingleRole: mingle}

const mingleRole = "mingle"

// A mingleOrder tells the child what to do until the end of its orders.
type mingleOrder struct {
	Seed             uint64
	Key              string
	Readers, Writers int
	Lease            time.Duration
}

// A mingleReport is an event of a hold, or a violation.
type mingleReport struct {
	judge.Report
	Asked time.Duration `json:",omitempty"` // with granted: when Lock was called
	Wrong string        `json:",omitempty"`
}

// A mingler is such a child.
type mingler struct {
	sides env.Sides
	order mingleOrder
	ctx   context.Context // ends with the orders

	mu    sync.Mutex
	out   *json.Encoder
	calls int
}

func mingle(_ *lockmw.Client, locker lockmw.Locker, in *json.Decoder, out *json.Encoder) error {
	m := &mingler{sides: locker.(env.Sides), out: out}
	if err := in.Decode(&m.order); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	m.ctx = ctx
	var wg sync.WaitGroup
	for i := range m.order.Readers + m.order.Writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(m.order.Seed, uint64(i)))
			reads, pause := i < m.order.Readers, 200*time.Millisecond
			if reads {
				pause = 5 * time.Millisecond
			}
			for m.ctx.Err() == nil {
				m.call(rng, reads)
				env.Sleep(m.ctx, env.Between(rng, 0, pause)) // so that sometimes no writer waits
			}
		})
	}
	err := in.Decode(new(mingleOrder)) // waits for the end of the orders
	stop()
	wg.Wait()
	return err
}

// A mingled is a hold of a mingler.
type mingled struct {
	m     *mingler
	call  int
	reads bool

	mu   sync.Mutex
	hold *lockmw.Hold // nil until its grant is reported
}

// call takes the lock, works and releases it.
func (m *mingler) call(rng *rand.Rand, reads bool) {
	m.mu.Lock()
	m.calls++
	h := &mingled{m: m, call: m.calls, reads: reads}
	m.mu.Unlock()
	wait := lockmw.Forever
	if rng.IntN(5) == 0 {
		wait = env.Between(rng, 0, 50*time.Millisecond)
	}
	asked := time.Now()
	ctx, hold, err := m.sides.Side(reads).Lock(m.ctx, m.order.Key, lockmw.WithWait(wait),
		lockmw.WithLease(m.order.Lease), lockmw.WithObserver(&lockmw.Observer{Renewed: h.renewed}))
	switch {
	case err == nil:
		h.granted(hold, asked)
		h.work(ctx, rng)
		h.unlock()
	case m.ctx.Err() != nil:
	case wait < lockmw.Forever && (errors.Is(err, lockmw.ErrBusy) || errors.Is(err, lockmw.ErrUnavailable)):
	default:
		m.say(mingleReport{Wrong: fmt.Sprintf("Lock (reads: %v): %v", reads, err)})
	}
}

func (m *mingler) say(r mingleReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.out.Encode(r) // fails only if the parent is gone; then this process ends too
}

// says reports an event of the hold; h.mu is held.
func (h *mingled) says(event string, asked time.Duration) {
	h.m.say(mingleReport{Asked: asked, Report: judge.Report{
		Event: event, Call: h.call, Key: h.m.order.Key, Reads: h.reads, At: judge.MachineTime(time.Now()),
		Token: h.hold.Token(), Deadline: judge.MachineTime(h.hold.Deadline()),
	}})
}

func (h *mingled) granted(hold *lockmw.Hold, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = hold
	h.says(judge.Granted, judge.MachineTime(asked))
}

// renewed reports a renewal by the watchdog.
func (h *mingled) renewed(_ context.Context, _ lockmw.Attempt, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && h.hold != nil {
		h.says(judge.Renewed, 0)
	}
}

// work passes the time of a hold, sometimes with a nested call or a downgrade.
func (h *mingled) work(ctx context.Context, rng *rand.Rand) {
	length := env.Between(rng, 0, 4*time.Millisecond)
	if rng.IntN(200) == 0 {
		length = env.Between(rng, 0, 2*h.m.order.Lease) // longer than some renewals take to become due
	}
	env.Sleep(ctx, length)
	h.look(ctx)
	if rng.IntN(4) == 0 {
		h.nest(ctx)
	}
	if !h.reads && rng.IntN(3) == 0 {
		h.downgrade()
		env.Sleep(ctx, env.Between(rng, 0, 4*time.Millisecond))
		h.look(ctx)
	}
}

// look checks that the context has not outlived the deadline. A holder that was stopped runs this when it continues.
func (h *mingled) look(ctx context.Context) {
	before := time.Now()
	if ctx.Err() == nil && !before.Before(h.hold.Deadline()) {
		h.m.say(mingleReport{Wrong: fmt.Sprintf("token %d: the context is alive after the deadline", h.hold.Token())})
	}
}

// nest takes a nested read hold.
func (h *mingled) nest(ctx context.Context) {
	_, inner, err := h.m.sides.Reader().Lock(ctx, h.m.order.Key)
	if err == nil {
		if inner.Token() != h.hold.Token() {
			h.m.say(mingleReport{Wrong: fmt.Sprintf("a hold nested in token %d has token %d", h.hold.Token(), inner.Token())})
		}
		err = inner.Unlock()
	}
	if ctx.Err() == nil {
		h.check("a nested read", err)
	}
}

func (h *mingled) downgrade() {
	h.mu.Lock()
	h.says(judge.Shared, 0)
	h.mu.Unlock()
	h.check("Downgrade", h.m.sides.RW.Downgrade(h.m.ctx, h.hold))
}

func (h *mingled) unlock() {
	h.mu.Lock()
	h.says(judge.Ended, 0)
	h.mu.Unlock()
	h.check("Unlock", h.hold.Unlock())
}

// check reports any error except a loss after the deadline or an unconfirmed command.
func (h *mingled) check(what string, err error) {
	switch {
	case err == nil, h.m.ctx.Err() != nil, errors.Is(err, lockmw.ErrUnavailable):
	case !errors.Is(err, lockmw.ErrLost), time.Now().Before(h.hold.Deadline()):
		h.m.say(mingleReport{Wrong: fmt.Sprintf("token %d: %s: %v", h.hold.Token(), what, err)})
	}
}
