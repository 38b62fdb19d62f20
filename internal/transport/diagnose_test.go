package transport

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// deafClient returns a client whose Dialer ignores its context, as go-redis' Dialer does with TLS, and fails with the error that
// is sent to answer.
func deafClient(t *testing.T) (rdb *redis.Client, dials *atomic.Int64, answer chan<- error) {
	answers, dials := make(chan error), new(atomic.Int64)
	rdb = redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", // which go-redis need not look up
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			if err, ok := <-answers; ok {
				return nil, err
			}
			return nil, net.ErrClosed
		},
	})
	t.Cleanup(func() {
		close(answers)
		_ = rdb.Close()
	})
	return rdb, dials, answers
}

func TestADiagnosisDelaysNoCallForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k Diagnoses
		t.Cleanup(k.Stop)
		rdb, dials, answer := deafClient(t)
		begun := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := k.Explain(rdb, core.ErrNoAnswer); !errors.Is(err, core.ErrNoAnswer) {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * freshFor)
		_ = k.Explain(rdb, core.ErrNoAnswer)
		if took := time.Since(begun) - 2*freshFor; took > 2*DiagnoseTimeout || dials.Load() != 1 {
			t.Errorf("two diagnoses one after the other took %v, with %d connections, want %v and 1", took, dials.Load(), 2*DiagnoseTimeout)
		}
		answer <- errors.New("no handshake")
		synctest.Wait()
		if err := k.Explain(rdb, core.ErrNoAnswer); !strings.Contains(err.Error(), "no handshake") {
			t.Errorf("the finding is missing: %v", err)
		}
	})
}

// Stop waits for the diagnosis in progress.
func TestStopWaitsForTheDiagnosis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k Diagnoses
		rdb, dials, answer := deafClient(t)
		_ = k.Explain(rdb, core.ErrNoAnswer)
		begun := time.Now()
		time.AfterFunc(time.Second, func() { answer <- errors.New("no handshake") })
		k.Stop()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("stopped after %v, want 1s", took)
		}
		time.Sleep(2 * freshFor)
		if err := k.Explain(rdb, core.ErrNoAnswer); dials.Load() != 1 || !errors.Is(err, core.ErrNoAnswer) {
			t.Errorf("after that there were %d connections, %v", dials.Load(), err)
		}
	})
}
