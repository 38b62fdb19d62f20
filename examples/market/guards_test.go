package main

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// A stall is a market with one seller and two buyers that use the same way.
type stall struct {
	*cell
	all    *market
	offers []offer // the cheapest two

	first, second guard
	firstMarket   *market
	secondWaits   func() // returns once the second buyer waits for a lock
}

func newStall(t *testing.T, s *redistest.Server, w *way) *stall {
	t.Helper()
	name := "stall-" + newItem()
	x := &stall{cell: &cell{load: load{1, 2}, way: w}, all: marketOf(t, s, name)}
	if err := x.found(t.Context(), x.all); err != nil {
		t.Fatal(err)
	}
	cheapest, err := x.all.rdb.ZRangeWithScores(t.Context(), x.all.offers(), 0, 1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range cheapest {
		item, seller, _ := strings.Cut(z.Member.(string), ".")
		x.offers = append(x.offers, offer{item, seller, int64(z.Score)})
	}
	contended, secondWaits := usertest.OnContended(t)
	x.firstMarket, x.secondWaits = marketOf(t, s, name), secondWaits
	x.first = w.open(x.firstMarket, locksOf(t, x.firstMarket))
	second := marketOf(t, s, name)
	x.second = w.open(second, locksOf(t, second, contended))
	return x
}

func marketOf(t *testing.T, s *redistest.Server, name string) *market {
	return &market{name: name, rdb: s.NewClient(t), embedded: s.Mini != nil}
}

func locksOf(t *testing.T, m *market, opts ...lockmw.Option) *lockmw.Client {
	t.Helper()
	all := []lockmw.ClientOption{lockmw.WithPrefix(m.name)}
	for _, o := range opts {
		all = append(all, o)
	}
	return usertest.ClientOf(t, m.rdb.(*redis.Client), all...)
}

func (x *stall) buys(t *testing.T, g guard, o offer, buyer string, want outcome) {
	t.Helper()
	if out, err := g.buy(t.Context(), o, buyer); err != nil || out != want {
		t.Errorf("%s buys %s: outcome %d, %v, want %d", buyer, o.item, out, err, want)
	}
}

// meet lets the second buyer buy an offer after the first has read and before it writes. It returns both outcomes.
func (x *stall) meet(t *testing.T, o offer, waits bool) (first, second outcome) {
	t.Helper()
	type result struct {
		outcome
		err error
	}
	came := make(chan result, 1)
	x.firstMarket.meanwhile = func() {
		x.firstMarket.meanwhile = nil // once
		go func() {
			out, err := x.second.buy(t.Context(), o, buyer(1))
			came <- result{out, err}
		}()
		if waits {
			x.secondWaits()
			return
		}
		r := usertest.Receive(t, "the second purchase", came)
		came <- r
	}
	first, err := x.first.buy(t.Context(), x.offers[0], buyer(0))
	if err != nil || x.firstMarket.meanwhile != nil {
		t.Fatalf("the first purchase, alone: outcome %d, %v", first, err)
	}
	r := usertest.Receive(t, "the second purchase", came)
	if r.err != nil {
		t.Fatal(r.err)
	}
	return first, r.outcome
}

func (x *stall) audits(t *testing.T, want audit) {
	t.Helper()
	if got, err := x.audit(t.Context(), x.all); err != nil || got != want {
		t.Errorf("audit: %+v, %v, want %+v", got, err, want)
	}
}

func wayCalled(t *testing.T, name string) *way {
	t.Helper()
	chosen, err := parseWays(name)
	if err != nil {
		t.Fatal(err)
	}
	return chosen[0]
}

func TestTwoBuyersOfOneItem(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		for _, c := range []struct {
			way           string
			waits         bool // the second buyer waits for the first
			first, second outcome
		}{
			{"none", false, done, done},
			{"watch", false, disturbed, done},
			{"coarse", true, done, gone},
			{"rw", true, done, gone},
			{"fine", true, done, gone},
		} {
			t.Run(c.way, func(t *testing.T) {
				x := newStall(t, s, wayCalled(t, c.way))
				first, second := x.meet(t, x.offers[0], c.waits)
				if first != c.first || second != c.second {
					t.Errorf("outcomes %d and %d, want %d and %d", first, second, c.first, c.second)
				}
				var want audit
				if c.way == "none" { // both buyers have paid and own the item
					want = audit{moneyOff: -x.offers[0].price, soldTwice: 1}
				}
				x.audits(t, want)
				x.buys(t, x.first, x.offers[0], buyer(0), gone)
			})
		}
	})
}

func TestTwoBuyersOfOneSeller(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		for _, c := range []struct {
			way   string
			waits bool
			first outcome
		}{
			{"none", false, done},
			{"watch", false, disturbed},
			{"coarse", true, done},
			{"rw", true, done},
			{"fine", false, done}, // purchases of other items do not wait
		} {
			t.Run(c.way, func(t *testing.T) {
				x := newStall(t, s, wayCalled(t, c.way))
				first, second := x.meet(t, x.offers[1], c.waits)
				if first != c.first || second != done {
					t.Errorf("outcomes %d and %d, want %d and %d", first, second, c.first, done)
				}
				var want audit
				if c.way == "none" { // the second write has replaced the seller's account
					want = audit{moneyOff: -x.offers[1].price}
				}
				x.audits(t, want)
				if first == disturbed {
					x.buys(t, x.first, x.offers[0], buyer(0), done)
				}
			})
		}
	})
}

func TestEveryWayListsAndBuys(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				x := newStall(t, s, &w)
				ctx, inventory := t.Context(), x.all.inventory(seller(0))
				o := offer{newItem(), seller(0), prices + 1} // more expensive than all others
				if out, err := x.first.list(ctx, o); err != nil || out != gone {
					t.Errorf("listing an item that the seller does not own: outcome %d, %v", out, err)
				}
				if err := x.all.rdb.SAdd(ctx, inventory, o.item).Err(); err != nil {
					t.Fatal(err)
				}
				x.minted.Add(1)
				if out, err := x.first.list(ctx, o); err != nil || out != done {
					t.Fatalf("listing: outcome %d, %v", out, err)
				}
				if has, err := x.all.rdb.SIsMember(ctx, inventory, o.item).Result(); err != nil || has {
					t.Errorf("the seller still owns the offered item (%v)", err)
				}
				if found, ok, err := x.first.look(ctx, o.price); err != nil || !ok || found != o {
					t.Errorf("looking for %+v finds %+v, %v, %v", o, found, ok, err)
				}
				if found, ok, err := x.first.look(ctx, o.price+1); err != nil || ok {
					t.Errorf("a search above all prices finds %+v, %v", found, err)
				}
				dearer := o
				dearer.price++
				x.buys(t, x.first, dearer, buyer(0), gone)
				x.buys(t, x.first, o, buyer(0), done)
				x.buys(t, x.second, o, buyer(1), gone)
				if has, err := x.all.rdb.SIsMember(ctx, x.all.inventory(buyer(0)), o.item).Result(); err != nil || !has {
					t.Errorf("the buyer does not own the bought item (%v)", err)
				}
				for user, want := range map[string]int64{
					buyer(0): startFunds - o.price, buyer(1): startFunds, seller(0): startFunds + o.price,
				} {
					if has, err := x.all.rdb.HGet(ctx, x.all.account(user), funds).Int64(); err != nil || has != want {
						t.Errorf("%s has %d, %v, want %d", user, has, err, want)
					}
				}
				x.audits(t, audit{})

				if err := x.all.rdb.HSet(ctx, x.all.account(buyer(1)), funds, x.offers[0].price-1).Err(); err != nil {
					t.Fatal(err)
				}
				x.buys(t, x.second, x.offers[0], buyer(1), gone) // it cannot pay
			})
		}
	})
}

func TestLooksAreSharedByTheReadWriteLockOnly(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	for name, waits := range map[string]bool{"coarse": true, "rw": false, "fine": false} {
		t.Run(name, func(t *testing.T) {
			x := newStall(t, s, wayCalled(t, name))
			reader := rwlock.New(locksOf(t, x.all)).RLocker()
			_, hold := usertest.Lock(t, t.Context(), reader, wholeMarket)
			looked := make(chan error, 1)
			go func() {
				_, _, err := x.second.look(t.Context(), 1)
				looked <- err
			}()
			if waits {
				x.secondWaits()
				usertest.Unlock(t, hold)
			} else {
				defer usertest.Unlock(t, hold)
			}
			if err := usertest.Receive(t, "the look", looked); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheAuditFindsErrors(t *testing.T) {
	t.Parallel()
	x := newStall(t, redistest.Mini(t), wayCalled(t, "lua"))
	ctx, rdb := t.Context(), x.all.rdb
	x.audits(t, audit{})
	rdb.HIncrBy(ctx, x.all.account(buyer(0)), funds, 7)
	rdb.SAdd(ctx, x.all.inventory(buyer(1)), x.offers[0].item)
	rdb.ZRem(ctx, x.all.offers(), x.offers[1].member())
	x.audits(t, audit{moneyOff: 7, soldTwice: 1, vanished: 1})
}
