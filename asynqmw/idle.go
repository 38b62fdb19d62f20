package asynqmw

import (
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/parked"
)

// A server whose queues are empty polls each of them for a task. asynq fixes the pause between two polls when it starts. Its
// default of a second is too long for a task that was woken, and 10 ms costs Redis 100 scripts a second for each queue. So
// Configure sets the pause to 10 ms, and the Logger, which asynq calls before each pause, extends it. A pause ends when this
// server wakes a task.

const (
	// shortestIdle is how long asynq pauses by itself.
	shortestIdle = 10 * time.Millisecond
	// longestIdle is about the longest pause, equal to asynq's own.
	longestIdle = time.Second
	// parkedIdle is about the longest pause while tasks are parked: another server may wake them without a free worker for them.
	parkedIdle = 400 * time.Millisecond
)

// An idler pauses while the queues of a server are empty.
type idler struct {
	mu   sync.Mutex
	came time.Time     // when the last task came, or the first pause began
	end  chan struct{} // ends a pause, or the next one
}

// taskCame is called when a task comes: more may follow.
func (i *idler) taskCame() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.came = time.Now()
}

// pause waits for about half of the time since the last task, but not much longer than longest.
func (i *idler) pause(longest time.Duration) {
	i.mu.Lock()
	if i.came.IsZero() {
		i.came = time.Now()
	}
	d := min(time.Since(i.came)/2, longest)
	i.mu.Unlock()
	if d < shortestIdle {
		return
	}
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-i.end:
	case <-timer.C:
	}
}

// endPause makes the server poll its queues immediately.
func (i *idler) endPause() {
	select {
	case i.end <- struct{}{}:
	default:
	}
}

// idle pauses after all queues were empty.
func (s *server) idle() {
	longest := longestIdle
	if s.hasLists() {
		longest = parkedIdle
	}
	s.idler.pause(longest)
}

// adjustPauses changes cfg so that the server adjusts its pauses while its queues are empty. cfg stays unchanged if the caller set
// the pause, and with an unknown version of asynq, where no task is woken.
func (s *server) adjustPauses(cfg *asynq.Config) {
	if linked.err != nil || cfg.TaskCheckInterval != 0 || cfg.LogLevel > asynq.FatalLevel {
		return
	}
	l := &idleLogger{Logger: cfg.Logger, level: cfg.LogLevel, server: s}
	if l.Logger == nil {
		l.Logger = &asynqLogger{log.New(os.Stderr, fmt.Sprintf("asynq: pid=%d ", os.Getpid()), log.Ldate|log.Ltime|log.Lmicroseconds|log.LUTC)}
	}
	if l.level == 0 {
		l.level = asynq.InfoLevel
	}
	cfg.TaskCheckInterval, cfg.Logger, cfg.LogLevel = shortestIdle, l, asynq.DebugLevel
}

// An idleLogger passes on the lines of asynq at or above a level. It pauses when asynq is about to pause. Lines above level debug
// end the pause, because asynq may be shutting down.
type idleLogger struct {
	asynq.Logger
	level  asynq.LogLevel
	server *server
}

func (l *idleLogger) log(level asynq.LogLevel, to func(...any), args []any) {
	if l.level <= level {
		to(args...)
	}
	if level > asynq.DebugLevel {
		l.server.idler.endPause()
	}
}

func (l *idleLogger) Debug(args ...any) {
	l.log(asynq.DebugLevel, l.Logger.Debug, args)
	if parked.FoundNothing(args) {
		l.server.idle()
	}
}

func (l *idleLogger) Info(args ...any)  { l.log(asynq.InfoLevel, l.Logger.Info, args) }
func (l *idleLogger) Warn(args ...any)  { l.log(asynq.WarnLevel, l.Logger.Warn, args) }
func (l *idleLogger) Error(args ...any) { l.log(asynq.ErrorLevel, l.Logger.Error, args) }
func (l *idleLogger) Fatal(args ...any) { l.log(asynq.FatalLevel, l.Logger.Fatal, args) }

// An asynqLogger writes lines as asynq does without a Logger in its Config.
type asynqLogger struct{ *log.Logger }

func (l *asynqLogger) Debug(args ...any) { l.line("DEBUG: ", args) }
func (l *asynqLogger) Info(args ...any)  { l.line("INFO: ", args) }
func (l *asynqLogger) Warn(args ...any)  { l.line("WARN: ", args) }
func (l *asynqLogger) Error(args ...any) { l.line("ERROR: ", args) }

func (l *asynqLogger) Fatal(args ...any) {
	l.line("FATAL: ", args)
	os.Exit(1)
}

func (l *asynqLogger) line(level string, args []any) { l.Print(append([]any{level}, args...)...) }
