// Package crowd is the people who want to buy. It sends the same clicks to the shops whatever they do.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/examples/stock/internal/shop"
)

// A Plan says who comes.
type Plan struct {
	Users, Clicks int // each of them clicks that often
	Items         int // each of them wants one of these
	AtOnce        int // clicks under way at a time
	Seed          uint64
}

// A Click is one attempt to buy.
type Click struct {
	User string
	Item int // from 0
	Shop int // that it is sent to, from 0
}

// List lists the clicks in the order in which they are sent. Those of a user follow one another, so that they are under
// way at the same time, and go to the shops in turn. The same seed makes the same list.
func (p Plan) List(shops int) []Click {
	random := rand.New(rand.NewPCG(p.Seed, 0))
	clicks := make([]Click, 0, p.Users*p.Clicks)
	for u := range p.Users {
		item := random.IntN(p.Items)
		for k := range p.Clicks {
			clicks = append(clicks, Click{User: fmt.Sprintf("user-%d", u+1), Item: item, Shop: (u + k) % shops})
		}
	}
	return clicks
}

// A Tally is what the crowd was answered. Answered and Sold may be read at any time, the rest after Drive.
type Tally struct {
	Answered, Sold atomic.Int64

	mu      sync.Mutex
	Results map[shop.Result]int
	Retries int
	Failed  error // the first answer that a crowd should never get
	Elapsed time.Duration

	took []time.Duration
}

// Drive sends the clicks to the shops, and waits for the answers. The error is that of ctx.
func (t *Tally) Drive(ctx context.Context, p Plan, shops []*shop.Shop, items []string, patience time.Duration) error {
	transport := &http.Transport{MaxConnsPerHost: p.AtOnce, MaxIdleConnsPerHost: p.AtOnce}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 2 * patience}
	t.Results = make(map[shop.Result]int)

	clicks := make(chan Click)
	var wg sync.WaitGroup
	start := time.Now()
	for range p.AtOnce {
		wg.Go(func() {
			for c := range clicks {
				begun := time.Now()
				a, err := shops[c.Shop].Buy(ctx, client, shop.Order{Item: items[c.Item], User: c.User, Patience: patience})
				t.add(a, err, time.Since(begun))
			}
		})
	}
	send(ctx, clicks, p.List(len(shops)))
	wg.Wait()
	t.Elapsed = time.Since(start)
	return ctx.Err()
}

func send(ctx context.Context, clicks chan<- Click, list []Click) {
	defer close(clicks)
	for _, c := range list {
		select {
		case clicks <- c:
		case <-ctx.Done():
			return
		}
	}
}

func (t *Tally) add(a shop.Answer, err error, took time.Duration) {
	if err == nil && a.Result == shop.Failed {
		err = errors.New(a.Why)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		a.Result = shop.Failed
		if t.Failed == nil {
			t.Failed = err
		}
	}
	t.Results[a.Result]++
	t.Retries += a.Retries
	t.took = append(t.took, took)
	if a.Result == shop.Sold {
		t.Sold.Add(1)
	}
	t.Answered.Add(1)
}

// Percentile returns the time within which p percent of the clicks were answered.
func (t *Tally) Percentile(p int) time.Duration {
	if len(t.took) == 0 {
		return 0
	}
	slices.Sort(t.took)
	return t.took[(len(t.took)-1)*p/100]
}
