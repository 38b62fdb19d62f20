package asynqmw

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
)

// If tasks are not woken, asynq keeps its own pauses.
func TestConfigureLeavesThePausesOfAnUnknownAsynq(t *testing.T) {
	known := linked
	linked = &layout{err: errors.New("it is unknown")}
	defer func() { linked = known }()
	if cfg := Configure(asynq.Config{}); cfg.TaskCheckInterval != 0 || cfg.Logger != nil || cfg.LogLevel != 0 {
		t.Errorf("%v, %T, %v", cfg.TaskCheckInterval, cfg.Logger, cfg.LogLevel)
	}
}

// While tasks are parked, another server may wake one that this server has to run.
func TestPausesAreShorterWhileTasksAreParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(1)
		s.idle() // the first pause
		time.Sleep(time.Hour)
		l := &lookState{}
		s.parkers[parkerID{}] = &parker{looks: map[string]*lookState{"default": l}}
		for parked, most := range map[bool]time.Duration{false: longestIdle * 3 / 2, true: parkedIdle * 3 / 2} {
			l.lists = parked
			for range 20 {
				start := time.Now()
				s.idle()
				if took := time.Since(start); took < most/3 || took > most {
					t.Errorf("a pause of %v, want %v to %v", took, most/3, most)
				}
			}
		}
	})
}
