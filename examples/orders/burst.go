package main

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
)

// A click is one attempt to order, some time after the doors open.
type click struct {
	user, item string
	at         time.Duration
}

// plan decides who clicks when. The same seed makes the same crowd.
func plan(c config) []click {
	random := rand.New(rand.NewPCG(c.seed, 0))
	rush := time.Duration(c.users) * time.Millisecond / 2
	clicks := make([]click, 0, c.users*c.clicks)
	for u := range c.users {
		item := itemName(random.IntN(c.items))
		at := time.Duration(random.Int64N(int64(rush)))
		for range c.clicks {
			clicks = append(clicks, click{user: fmt.Sprintf("user-%d", u+1), item: item, at: at})
			at += time.Duration(random.Int64N(int64(10 * time.Millisecond)))
		}
	}
	slices.SortFunc(clicks, func(a, b click) int { return int(a.at - b.at) })
	return clicks
}

func itemName(n int) string { return fmt.Sprintf("item-%d", n+1) }

// A tally is what the crowd was told.
type tally struct {
	requests atomic.Int64 // answered

	mu       sync.Mutex
	accepted []int64 // ids of orders
	refused  int
	failed   error // the first answer that a crowd should never get
	elapsed  time.Duration
}

// drive sends the clicks to the shop at base, each at its time, and waits for the answers.
func drive(ctx context.Context, base string, clicks []click, t *tally) error {
	transport := &http.Transport{MaxConnsPerHost: 300, MaxIdleConnsPerHost: 300}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}

	var wg sync.WaitGroup
	start := time.Now()
	for _, c := range clicks {
		if pause(ctx, time.Until(start.Add(c.at))) != nil {
			break
		}
		wg.Go(func() { t.add(post(ctx, client, base, c)) })
	}
	wg.Wait()
	t.elapsed = time.Since(start)
	return ctx.Err()
}

// post returns the id of the order, or 0 if it was refused.
func post(ctx context.Context, client *http.Client, base string, c click) (int64, error) {
	body := strings.NewReader(fmt.Sprintf(`{"item":%q}`, c.item))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/users/"+c.user+"/orders", body)
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
	return 0, fmt.Errorf("%s: %s", res.Status, text)
}

func (t *tally) add(id int64, err error) {
	t.requests.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil && id != 0:
		t.accepted = append(t.accepted, id)
	default:
		t.refused++
	}
	if t.failed == nil {
		t.failed = err
	}
}
