package transport

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/timers"
)

func TestPipelinesDoNotPileUpAtANodeThatDoesNotAnswer(t *testing.T) {
	onPacer(t, func(int) time.Duration { return time.Hour }, func(t *testing.T, p *Pacer, s *pacedServer) {
		schedule := timers.New(func() {})
		defer schedule.Stop()
		pipes := NewPipelines(p.s, schedule)
		send := func(inFlight int) {
			pipes.Send([]*Call{(&pacedCall{timeout: time.Second}).Prepare()}, inFlight)
			synctest.Wait()
		}
		for range 5 {
			send(3)
		}
		send(4) // has more room
		if pipelines, most := s.seen(); len(pipelines) != 4 || most != 4 {
			t.Errorf("%d pipelines, %d at a time, want 4", len(pipelines), most)
		}
		time.Sleep(time.Second) // all have timed out
		synctest.Wait()
		send(3)
		if pipelines, _ := s.seen(); len(pipelines) != 5 {
			t.Errorf("%d pipelines, want another one", len(pipelines))
		}
	})
}

// A pipeline lasts as long as its shortest timeout, so calls with a much longer one have a pipeline of their own.
func TestPipelinesSeparateCallsByTimeout(t *testing.T) {
	onPacer(t, millisecond, func(t *testing.T, p *Pacer, s *pacedServer) {
		schedule := timers.New(func() {})
		defer schedule.Stop()
		var calls []*Call
		for _, timeout := range []time.Duration{time.Second, 9 * time.Second, 2 * time.Second, 8 * time.Second} {
			calls = append(calls, (&pacedCall{timeout: timeout}).Prepare())
		}
		NewPipelines(p.s, schedule).Send(calls, 9)
		synctest.Wait()
		pipelines, _ := s.seen()
		for _, one := range pipelines {
			if one.calls != 2 {
				t.Errorf("%d calls in a pipeline, want 2", one.calls)
			}
		}
		if len(pipelines) != 2 {
			t.Errorf("%d pipelines, want 2", len(pipelines))
		}
	})
}
