package transport

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/test/race"
)

// A pacedServer records the pipelines that arrive, and answers each after a time.
type pacedServer struct {
	takes func(n int) time.Duration // to answer the n-th pipeline
	deaf  bool                      // go-redis waits for answers although the context has ended

	stopped   chan struct{}
	mu        sync.Mutex
	pipelines []pacedPipeline
	underway  int
	most      int // in flight
}

type pacedPipeline struct {
	at    clock.Instant
	calls int
}

func (s *pacedServer) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook answers a single command, which is a pipeline of one.
func (s *pacedServer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return s.answer(ctx, []redis.Cmder{cmd}) }
}

func (s *pacedServer) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return s.answer
}

func (s *pacedServer) answer(ctx context.Context, cmds []redis.Cmder) error {
	s.mu.Lock()
	takes := s.takes(len(s.pipelines))
	s.pipelines = append(s.pipelines, pacedPipeline{clock.Now(), len(cmds)})
	s.underway++
	s.most = max(s.most, s.underway)
	s.mu.Unlock()
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		for _, cmd := range cmds {
			cmd.(interface{ SetVal(any) }).SetVal(int64(1))
		}
	case <-s.ended(ctx):
	}
	s.mu.Lock()
	s.underway--
	s.mu.Unlock()
	return ctx.Err()
}

// seen returns the pipelines that have arrived, and the largest number in flight at a time.
func (s *pacedServer) seen() (pipelines []pacedPipeline, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pipelines), s.most
}

// ended is closed when the client no longer waits for an answer.
func (s *pacedServer) ended(ctx context.Context) <-chan struct{} {
	if s.deaf {
		return s.stopped
	}
	return ctx.Done()
}

// A pacedCall records when it was sent.
type pacedCall struct {
	deadline clock.Instant
	timeout  time.Duration
	sent     clock.Instant
	dropped  bool
}

func (c *pacedCall) Prepare() *Call {
	c.sent = clock.Now()
	k := NewCall(context.Background(), NewScript("return 1"), 1, func(*Reply) {})
	k.AddKeys("key")
	k.Timeout = c.timeout
	return k
}

func (c *pacedCall) Drop() { c.dropped = true }

// onPacer runs a test with a Pacer whose server takes so long to answer.
func onPacer(t *testing.T, takes func(n int) time.Duration, test func(t *testing.T, p *Pacer, s *pacedServer)) {
	t.Helper()
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		s := &pacedServer{takes: takes, stopped: make(chan struct{})}
		rdb := redis.NewClient(&redis.Options{
			Addr:                     "127.0.0.1:6379",
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		rdb.AddHook(s)
		sender := NewSender(rdb, Topology{Single: true}, time.Second, Replicas{})
		test(t, NewPacer(sender), s)
		close(s.stopped)
		sender.Stop()
		_ = rdb.Close()
	})
}

// add adds n calls whose deadlines are one after the other, the last one first.
func (p *Pacer) add(n int, first, last, timeout time.Duration) (all []*pacedCall) {
	now := clock.Now()
	due := make([]Due, n)
	for i := range due {
		c := &pacedCall{deadline: now.Add(last - (last-first)*time.Duration(i)/time.Duration(n)), timeout: timeout}
		all = append(all, c)
		due[i] = Due{Key: "key", Deadline: c.deadline, Call: c}
	}
	p.Add(due)
	return all
}

func millisecond(int) time.Duration { return time.Millisecond }

// However many calls are due together, they go out in small pipelines, a few at a time, and each well before its deadline.
func TestManyCallsArePaced(t *testing.T) {
	for name, of := range map[string]struct {
		calls       int
		first, last time.Duration // deadlines
		most        int           // in a turn
	}{
		"few":            {1000, 19 * time.Second, 20 * time.Second, paceCalls},
		"a lease of 30s": {50_000, 18 * time.Second, 20 * time.Second, paceCalls},
		"a short lease":  {20_000, 600 * time.Millisecond, 700 * time.Millisecond, 1400},
	} {
		t.Run(name, func(t *testing.T) {
			onPacer(t, millisecond, func(t *testing.T, p *Pacer, s *pacedServer) {
				begun := clock.Now()
				all := p.add(of.calls, of.first, of.last, 10*time.Second)
				time.Sleep(of.last)
				synctest.Wait()
				for i, c := range all {
					if c.sent == 0 || c.sent > begun.Add(c.deadline.Sub(begun)/2) {
						t.Fatalf("call %d, with a deadline after %v, was sent after %v", i, c.deadline.Sub(begun), c.sent.Sub(begun))
					}
					if i > 0 && c.sent > all[i-1].sent {
						t.Fatalf("a call was sent later than the next one, whose deadline is later")
					}
				}
				turns := make(map[time.Duration]int)
				pipelines, most := s.seen()
				for _, one := range pipelines {
					if one.calls > maxPaced {
						t.Errorf("a pipeline has %d calls", one.calls)
					}
					turns[one.at.Sub(begun)/paceTurn] += one.calls
				}
				for turn, n := range turns {
					if n > of.most {
						t.Errorf("%d calls in turn %d", n, turn)
					}
				}
				if most > maxPaceFlights {
					t.Errorf("%d pipelines were in flight", most)
				}
			})
		})
	}
}

// A call is sent immediately while little is in flight.
func TestASingleCallIsNotPaced(t *testing.T) {
	onPacer(t, func(int) time.Duration { return time.Second }, func(t *testing.T, p *Pacer, _ *pacedServer) {
		for range 3 {
			begun := clock.Now()
			c := p.add(1, time.Second, time.Second, time.Second)[0]
			synctest.Wait()
			if c.sent != begun {
				t.Errorf("sent %v after it was added", c.sent.Sub(begun))
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// A pipeline without an answer delays the others for a 24th of the lease, and a server that does not answer gets only a few
// pipelines.
func TestAPipelineWithoutAnAnswerDelaysNoOthers(t *testing.T) {
	const lease, timeout = 30 * time.Second, 10 * time.Second
	first := func(n int) time.Duration {
		if n < maxPaceFlights {
			return time.Hour
		}
		return time.Millisecond
	}
	onPacer(t, first, func(t *testing.T, p *Pacer, s *pacedServer) {
		begun := clock.Now()
		all := p.add(10*maxPaced, lease/2, lease/2, timeout)
		time.Sleep(lease / 4)
		synctest.Wait()
		for i, c := range all {
			if c.sent == 0 || c.sent.Sub(begun) > lease/24+time.Second {
				t.Fatalf("call %d was sent after %v", i, c.sent.Sub(begun))
			}
		}
		pipelines, _ := s.seen()
		if next := pipelines[maxPaceFlights]; next.at.Sub(begun) < lease/25 {
			t.Errorf("one more pipeline is in flight after %v", next.at.Sub(begun))
		}
	})
	onPacer(t, func(int) time.Duration { return time.Hour }, func(t *testing.T, p *Pacer, s *pacedServer) {
		p.add(100*maxPaced, 2*lease/3, 2*lease/3, timeout)
		time.Sleep(lease / 2)
		synctest.Wait()
		if _, most := s.seen(); most > maxUnanswered {
			t.Errorf("%d pipelines were in flight", most)
		}
	})
}
