// Package crowd simulates the users: it plans their clicks and counts the answers.
package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/orders/internal/settings"
)

// A Click is one attempt to order, this long after the start of the sale.
type Click struct {
	User, Item string
	At         time.Duration
}

// Plan plans all clicks. The same seed gives the same plan.
func Plan(c settings.Settings) []Click {
	random := rand.New(rand.NewPCG(c.Seed, 0))
	clicks := make([]Click, 0, c.Users*c.Clicks)
	for u := range c.Users {
		item := ItemName(random.IntN(c.Items))
		at := time.Duration(random.Int64N(int64(c.Rush)))
		for range c.Clicks {
			clicks = append(clicks, Click{User: fmt.Sprintf("user-%d", u+1), Item: item, At: at})
			at += time.Duration(random.Int64N(int64(10 * time.Millisecond)))
		}
	}
	slices.SortFunc(clicks, func(a, b Click) int { return int(a.At - b.At) })
	return clicks
}

// ItemName returns the name of the item with the number n, from 0.
func ItemName(n int) string { return fmt.Sprintf("item-%d", n+1) }

// A Tally counts the answers. Answered may be read at any time, the other fields after Drive.
type Tally struct {
	Answered atomic.Int64

	mu       sync.Mutex
	Accepted []int64 // ids of orders
	Refused  int
	Lost     int   // refused calls that lost their lock, and may have stored an order
	Failed   error // the first answer that should never occur
	Elapsed  time.Duration
}

// Drive sends each click to the shop at base at its time, and waits for all answers.
func (t *Tally) Drive(ctx context.Context, base string, clicks []Click) error {
	transport := &http.Transport{MaxConnsPerHost: 300, MaxIdleConnsPerHost: 300}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}

	var wg sync.WaitGroup
	start := time.Now()
	for _, c := range clicks {
		if clock.Sleep(ctx, time.Until(start.Add(c.At))) != nil {
			break
		}
		wg.Go(func() { t.add(Order(ctx, client, base, c.User, c.Item)) })
	}
	wg.Wait()
	t.Elapsed = time.Since(start)
	return ctx.Err()
}

// ErrLost means that the shop lost a lock; the order may have been stored.
var ErrLost = errors.New("the shop lost a lock")

// Order orders an item at the shop at base. It returns the id of the order, or 0 if it was refused.
func Order(ctx context.Context, client *http.Client, base, user, item string) (int64, error) {
	body := strings.NewReader(fmt.Sprintf(`{"item":%q}`, item))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/users/"+user+"/orders", body)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	switch res.StatusCode {
	case http.StatusCreated:
		var out struct {
			Order int64 `json:"order"`
		}
		if err := json.Unmarshal(text, &out); err != nil || out.Order == 0 {
			return 0, errors.Join(fmt.Errorf("an accepted order without an id: %s", text), err)
		}
		return out.Order, nil
	case http.StatusConflict, http.StatusServiceUnavailable:
		return 0, nil
	}
	if strings.Contains(string(text), "lock-lost") {
		return 0, ErrLost
	}
	return 0, fmt.Errorf("%s: %s", res.Status, text)
}

func (t *Tally) add(id int64, err error) {
	t.Answered.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil && id != 0:
		t.Accepted = append(t.Accepted, id)
	default:
		t.Refused++
	}
	switch {
	case errors.Is(err, ErrLost):
		t.Lost++
	case t.Failed == nil:
		t.Failed = err
	}
}
