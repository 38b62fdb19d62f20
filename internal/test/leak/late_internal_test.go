package leak

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestGoroutinesThatEndLateAreAwaited(t *testing.T) {
	ended := make(chan struct{})
	code := patient{run: func() int {
		go func() {
			defer close(ended)
			time.Sleep(time.Second) // longer than goleak waits
		}()
		return 0
	}}.Run()
	select {
	case <-ended:
	default:
		t.Error("not awaited")
	}
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestNothingIsAwaitedAfterAFailure(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	began := time.Now()
	code := patient{run: func() int {
		go func() { <-stop }()
		return 3
	}, ignored: []goleak.Option{}}.Run()
	if code != 3 || time.Since(began) > time.Minute {
		t.Errorf("exit code %d after %v, want 3 without a wait", code, time.Since(began))
	}
}
