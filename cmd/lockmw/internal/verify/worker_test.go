package verify

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/wire"
)

// A hand is a worker in this process.
type hand struct {
	t       *testing.T
	orders  *json.Encoder
	reports chan report
}

// hire starts a worker for a server. It ends with the test.
func hire(t *testing.T, s *redistest.Server) *hand {
	t.Helper()
	in, orders := io.Pipe()
	reports, out := io.Pipe()
	h := &hand{t: t, orders: json.NewEncoder(orders), reports: make(chan report, 1000)}
	connect := func(_ json.RawMessage, through func(Dial) *wire.Wire) (redis.UniversalClient, error) {
		w := through(func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		})
		return redis.NewClient(&redis.Options{Addr: s.Addr(), Dialer: w.Dial}), nil
	}
	ended := make(chan error, 1)
	go func() {
		ended <- work(connect, json.NewDecoder(in), json.NewEncoder(out))
		_ = out.Close()
	}()
	go func() {
		defer close(h.reports)
		for d := json.NewDecoder(reports); ; {
			var r report
			if d.Decode(&r) != nil {
				return
			}
			h.reports <- r
		}
	}()
	t.Cleanup(func() {
		_ = orders.Close()
		if err := <-ended; err != io.EOF {
			t.Errorf("the worker ended with %v", err)
		}
	})
	h.order(setup{Prefix: "p", Lease: 600 * time.Millisecond, Patience: time.Minute, Cost: time.Microsecond, Share: 1})
	h.await(ready)
	return h
}

func (h *hand) order(o any) {
	h.t.Helper()
	if err := h.orders.Encode(o); err != nil {
		h.t.Fatal(err)
	}
}

// await returns the next report with this event.
func (h *hand) await(event string) report {
	h.t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		select {
		case r, ok := <-h.reports:
			if !ok {
				h.t.Fatalf("the worker has ended without %q", event)
			}
			if r.Event == event {
				return r
			}
		case <-limit.C:
			h.t.Fatalf("no report %q", event)
		}
	}
}

func TestAWorkerReportsAnEarlyLoss(t *testing.T) {
	s := redistest.Mini(t)
	h := hire(t, s)
	h.order(order{Do: doHold, N: 1, Key: "k", For: time.Second, Lease: 3 * time.Second})
	if r := h.await(judge.Granted); r.Call != -1 || r.Key != "k" || r.Token == 0 || r.Deadline <= r.At || r.Asked > r.At {
		t.Errorf("the grant is %+v", r)
	}
	s.Mini.FlushAll() // the next renewal finds out
	if r := h.await(early); r.Call != -1 || r.Err == "" {
		t.Errorf("the loss is %+v", r)
	}
	h.order(order{Do: doRelease, N: 1})
	if r := h.await(judge.Done); r.Type != "lock_lost" {
		t.Errorf("the end is %+v", r)
	}
}

func TestAWorkerReportsALossAtItsDeadline(t *testing.T) {
	for _, disturbance := range []string{doCut, doSilence} {
		h := hire(t, redistest.Mini(t))
		h.order(order{Do: doHold, N: 1, Key: "k", For: time.Second})
		h.await(judge.Renewed)
		h.order(order{Do: disturbance})
		r := h.await(judge.Ended)
		if !r.Lost || r.At < r.Deadline || r.Late > r.At-r.Deadline {
			t.Errorf("%s: the loss is %+v", disturbance, r)
		}
		h.order(order{Do: doRestore})
		h.order(order{Do: doRelease, N: 1})
		h.await(judge.Done)
		h.order(order{Do: doHold, N: 2, Key: "k", For: time.Minute})
		h.await(judge.Granted)
	}
}

func TestAWorkerReportsAQueuedCallAndItsFailure(t *testing.T) {
	s := redistest.Mini(t)
	h, other := hire(t, s), hire(t, s)
	h.order(order{Do: doHold, N: 1, Key: "k", For: time.Second})
	h.await(judge.Granted)
	other.order(order{Do: doHold, N: 1, Key: "k", For: 200 * time.Millisecond})
	if r := other.await(judge.Queued); r.Call != -1 {
		t.Errorf("the queued call is %+v", r)
	}
	if r := other.await(judge.Failed); r.Type != timedOut || !r.Limited || r.Queued == 0 || r.At-r.Asked < 200*time.Millisecond {
		t.Errorf("the failure is %+v", r)
	}
}

// Keys are named before they exist, so that they can be removed if the process is killed.
func TestAWorkerNamesItsKeysAndCountsItsScripts(t *testing.T) {
	h := hire(t, redistest.Mini(t))
	h.order(order{Do: doHold, N: 1, Key: "k", For: time.Second})
	named := make(map[string]bool)
	for r := range h.reports {
		for _, key := range r.Wrote {
			named[key] = true
		}
		if r.Event == judge.Granted {
			break
		}
	}
	if !named["p:{k}"] || !named["p:fence"] {
		t.Errorf("the keys %v are named before the grant", named)
	}
	h.order(order{Do: doRelease, N: 1})
	if r := h.await(judge.Done); r.Scripts < 2 {
		t.Errorf("%d scripts were counted", r.Scripts)
	}
}
