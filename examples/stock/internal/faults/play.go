package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/stock/internal/memcached"
	"github.com/lockmw/go/examples/stock/internal/shop"
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// A Script reproduces a fault of a way, or shows that the way does not have it.
type Script struct {
	Way   string
	Name  string
	Stock int           // of the single item; 0 means 1
	Lease time.Duration // of the locks of the first shop; 0 means long, which the second one always has
	Play  func(*Stage)
	Want  Facts // Retries is ignored
}

// The leases of locks in scripts: one that the script lets expire, one that first has to last for a step on a slow machine, and one
// that never expires.
const (
	short  = 500 * time.Millisecond
	medium = 3 * time.Second
	long   = time.Minute
)

// Of returns the scripts of a way.
func Of(way string) []Script {
	var list []Script
	for _, family := range [][]Script{unguarded(), inSQL(), bySetNX(), byMemcached(), inRedis(), byLockmw(), byKey()} {
		for _, s := range family {
			if s.Way == way {
				list = append(list, s)
			}
		}
	}
	return list
}

// Perform plays the script in a way and returns the facts. It returns errors.ErrUnsupported if this system does not support
// a step of the script.
func (s Script) Perform(ctx context.Context, w ways.Way, place ways.Place, m *memcached.Server) (_ Facts, err error) {
	place.Lease = cmp.Or(s.Lease, long)
	env, err := ways.NewEnv(ctx, place)
	if err != nil {
		return Facts{}, err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	stage := &Stage{
		ctx: ctx, env: env, way: w, memcached: m, client: &http.Client{Transport: transport}, stock: max(1, s.Stock),
	}
	defer func() { err = errors.Join(err, stage.close()) }()
	if err := stage.open(); err != nil {
		return Facts{}, err
	}
	s.Play(stage)
	stage.audit()
	if stage.err != nil {
		return stage.facts, fmt.Errorf("the script %q: %w", s.Name, stage.err)
	}
	return stage.facts, nil
}

func (s *Stage) open() error {
	if err := s.env.Books.Offer(s.ctx, s.item(), s.stock); err != nil {
		return err
	}
	if s.way.Offer != nil {
		if err := s.way.Offer(s.ctx, s.env, s.item(), s.stock); err != nil {
			return err
		}
	}
	for i := range s.shops {
		var err error
		if s.shops[i], err = s.newShop(i); err != nil {
			return err
		}
	}
	return nil
}

// newShop starts a shop. Only locks of the first one may expire: on a busy machine, locks of the other one would expire as well.
func (s *Stage) newShop(at int) (*shop.Shop, error) {
	place := s.env.Place
	if at == there {
		place.Lease = long
	}
	return shop.Open(s.ctx, shop.Spec{Place: place, Way: s.way.Name})
}

// item is the name of the item, which is unique in the books that all scripts share.
func (s *Stage) item() string { return s.env.Name }

func (s *Stage) close() error {
	var err error
	for _, open := range s.shops {
		if open != nil {
			err = errors.Join(err, open.Close())
		}
	}
	return errors.Join(err, s.buryWorkers())
}

// buryWorkers removes the records of killed workers from Redis, which asynq never deletes.
func (s *Stage) buryWorkers() error {
	var err error
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), 5*time.Second)
	defer cancel()
	for _, pid := range s.killed {
		for _, list := range []string{"asynq:servers", "asynq:workers"} {
			entries, listErr := s.env.Redis.ZRange(ctx, list, 0, -1).Result()
			err = errors.Join(err, listErr)
			for _, entry := range entries { // they end in host:pid:id, in braces
				if strings.Contains(entry, fmt.Sprintf(":%d:", pid)) {
					err = errors.Join(err, s.env.Redis.ZRem(ctx, list, entry).Err(), s.env.Redis.Del(ctx, entry).Err())
				}
			}
		}
	}
	return err
}

func (s *Stage) audit() {
	for _, c := range s.calls {
		if s.err == nil && !c.ended {
			s.fail("the script has left %s's call", c.user)
		}
	}
	if s.err != nil {
		return
	}
	a, err := s.env.Books.Audit(s.ctx, s.item(), s.stock)
	s.must(err)
	s.facts.Sold, s.facts.Oversold, s.facts.Duplicates = a.Sold, a.Oversold, a.Duplicates
}

// missing returns the number of orders that Redis has counted and the books lack.
func (s *Stage) missing() int {
	if s.err != nil {
		return 0
	}
	left, err := s.way.Left(s.ctx, s.env, s.item())
	s.must(err)
	a, err := s.env.Books.Audit(s.ctx, s.item(), s.stock)
	s.must(err)
	return s.stock - left - a.Sold
}

// noteMissing counts the orders that were lost with a dead process.
func (s *Stage) noteMissing() { s.facts.Missing = s.missing() }

// awaitRecovery waits until all orders are in the books.
func (s *Stage) awaitRecovery() {
	for s.err == nil && s.missing() > 0 {
		s.must(clock.Sleep(s.ctx, 10*time.Millisecond))
	}
	if s.err == nil {
		s.facts.Recovered = s.facts.Missing
	}
}
