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
	Key        string // sent as Idempotency-Key, the same for all clicks of one intent; "" sends none
	At         time.Duration
	Late       bool // waits for the answers to the earlier clicks of its intent
}

// Plan plans all clicks: the clicks of a user begin within milliseconds of each other, except for the last of three or more, which
// comes after their answers. The same seed gives the same plan.
func Plan(c settings.Settings) []Click {
	random := rand.New(rand.NewPCG(c.Seed, 0))
	clicks := make([]Click, 0, c.Users*c.Clicks)
	for u := range c.Users {
		item := ItemName(random.IntN(c.Items))
		at := time.Duration(random.Int64N(int64(c.Rush)))
		for n := range c.Clicks {
			clicks = append(clicks, Click{
				User: fmt.Sprintf("user-%d", u+1), Item: item, Key: fmt.Sprintf("intent-%d", u+1),
				At: at, Late: n >= 2 && n == c.Clicks-1,
			})
			at += time.Duration(random.Int64N(int64(10 * time.Millisecond)))
		}
	}
	slices.SortStableFunc(clicks, func(a, b Click) int { return int(a.At - b.At) }) // a late click stays behind the others
	return clicks
}

// ItemName returns the name of the item with the number n, from 0.
func ItemName(n int) string { return fmt.Sprintf("item-%d", n+1) }

// A Tally counts the answers. Answered may be read at any time, the other fields after Drive.
type Tally struct {
	Answered atomic.Int64

	mu       sync.Mutex
	Accepted []int64 // ids of orders
	Repeated int     // answers with an order that an earlier answer to the same intent had
	Late     int     // repeated answers to late clicks
	Refused  int
	Lost     int   // refused calls that lost their lock or their record, and may have stored an order
	Failed   error // the first answer that should never occur
	Elapsed  time.Duration

	orders map[order]bool
}

type order struct {
	intent string
	id     int64
}

// Drive sends each click to the shop at base at its time, and waits for all answers.
func (t *Tally) Drive(ctx context.Context, base string, clicks []Click) error {
	transport := &http.Transport{MaxConnsPerHost: 300, MaxIdleConnsPerHost: 300}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}

	var wg sync.WaitGroup
	early := make(map[string]*sync.WaitGroup) // the early clicks of each intent
	start := time.Now()
	for _, c := range clicks {
		if clock.Sleep(ctx, time.Until(start.Add(c.At))) != nil {
			break
		}
		if early[c.Key] == nil {
			early[c.Key] = new(sync.WaitGroup)
		}
		others := early[c.Key]
		if !c.Late {
			others.Add(1)
		}
		wg.Go(func() {
			if c.Late {
				others.Wait()
			} else {
				defer others.Done()
			}
			id, err := Order(ctx, client, base, c)
			t.add(c, id, err)
		})
	}
	wg.Wait()
	t.Elapsed = time.Since(start)
	return ctx.Err()
}

// ErrLost means that the shop lost a lock, or the record of its answer; the order may have been stored.
var ErrLost = errors.New("the shop lost a lock or a record")

// Order clicks once at the shop at base. It returns the id of the order, or 0 if it was refused.
func Order(ctx context.Context, client *http.Client, base string, c Click) (int64, error) {
	body := strings.NewReader(fmt.Sprintf(`{"item":%q}`, c.Item))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/users/"+c.User+"/orders", body)
	if err != nil {
		return 0, err
	}
	if c.Key != "" {
		req.Header.Set("Idempotency-Key", c.Key)
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
	if strings.Contains(string(text), "lock-lost") || strings.Contains(string(text), "idempotency-maybe-done") {
		return 0, ErrLost
	}
	return 0, fmt.Errorf("%s: %s", res.Status, text)
}

func (t *Tally) add(c Click, id int64, err error) {
	t.Answered.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch o := (order{c.Key, id}); {
	case err != nil || id == 0:
		t.Refused++
	case t.orders[o]:
		t.Repeated++
		if c.Late {
			t.Late++
		}
	default:
		if t.orders == nil {
			t.orders = make(map[order]bool)
		}
		t.orders[o] = true
		t.Accepted = append(t.Accepted, id)
	}
	switch {
	case errors.Is(err, ErrLost):
		t.Lost++
	case t.Failed == nil:
		t.Failed = err
	}
}
