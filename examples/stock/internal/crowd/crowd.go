// Package crowd simulates the users. It sends the same clicks to the shops in every way.
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

// A Plan configures the crowd.
type Plan struct {
	Users, Clicks int // number of users, and clicks of each
	Items         int // number of items; each user wants one
	AtOnce        int // number of simultaneous clicks
	Seed          uint64
}

// A Click is one attempt to buy.
type Click struct {
	User string
	Item int // from 0
	Shop int // target, from 0
}

// List lists the clicks in the order of sending. The clicks of a user are adjacent, so that they overlap, and go to the
// shops in turn. The same seed gives the same list.
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

// A Tally counts the answers. Answered and Sold may be read at any time, the other fields after Drive.
type Tally struct {
	Answered, Sold atomic.Int64

	mu      sync.Mutex
	Results map[shop.Result]int
	Retries int

	Replayed      int // answers that repeated an earlier one
	Contradicting int // answers with another receipt than the first answer for the same key

	Failed  error // the first answer that should never occur
	Elapsed time.Duration

	took     []time.Duration
	receipts shop.Receipts
}

// Drive sends the clicks to the shops and waits for all answers. It returns the error of ctx.
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
				o := shop.Order{Item: items[c.Item], User: c.User, Patience: patience}
				a, err := shops[c.Shop].Buy(ctx, client, o)
				t.add(o.Key(), a, err, time.Since(begun))
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

func (t *Tally) add(key string, a shop.Answer, err error, took time.Duration) {
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
	switch {
	case a.Result == shop.Sold && a.Replayed:
		t.Replayed++
	case a.Result == shop.Sold:
		t.Sold.Add(1)
	}
	if t.receipts.Contradicts(key, a) {
		t.Contradicting++
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
