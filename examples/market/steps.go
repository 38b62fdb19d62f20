package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A market is one contender's access to the market: shared keys, and its own client.
type market struct {
	name string // of the run; the prefix of its keys
	rdb  redis.UniversalClient

	embedded bool // the server is miniredis

	// meanwhile is called between the read and the write of a purchase; tests let others buy there.
	meanwhile func()
}

// The keys share a hash tag, so that transactions and scripts can use several of them in a Cluster.

// offers is the key of the sorted set of "item.seller" by price.
func (m *market) offers() string { return "{" + m.name + "}:market" }

// account is the key of the hash with a user's funds.
func (m *market) account(user string) string { return "{" + m.name + "}:users:" + user }

// inventory is the key of the set of a user's items.
func (m *market) inventory(user string) string { return "{" + m.name + "}:inventory:" + user }

const funds = "funds"

// An offer is an item in the market.
type offer struct {
	item, seller string
	price        int64
}

func (o offer) member() string { return o.item + "." + o.seller }

// An outcome is the result of a try.
type outcome int

const (
	done      outcome = iota
	gone              // the offer is sold, or its price has changed
	disturbed         // a watched key has changed: retry
)

// look returns the cheapest offer that costs at least price.
func (m *market) look(ctx context.Context, price int64) (o offer, found bool, err error) {
	list, err := m.rdb.ZRangeByScoreWithScores(ctx, m.offers(), &redis.ZRangeBy{
		Min: strconv.FormatInt(price, 10), Max: "+inf", Count: 1,
	}).Result()
	if err != nil || len(list) == 0 {
		return o, false, err
	}
	member, _ := list[0].Member.(string)
	item, seller, _ := strings.Cut(member, ".")
	return offer{item, seller, int64(list[0].Score)}, true, nil
}

// list puts an item into the market if the seller owns it. Between check and write, nothing else may move the item.
func (m *market) list(ctx context.Context, o offer) (outcome, error) {
	owned, err := m.rdb.SIsMember(ctx, m.inventory(o.seller), o.item).Result()
	if err != nil || !owned {
		return gone, err
	}
	_, err = m.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		m.queueListing(ctx, p, o)
		return nil
	})
	return done, err
}

func (m *market) queueListing(ctx context.Context, p redis.Pipeliner, o offer) {
	p.ZAdd(ctx, m.offers(), redis.Z{Score: float64(o.price), Member: o.member()})
	p.SRem(ctx, m.inventory(o.seller), o.item)
}

// buy reads the offer and the accounts, computes the new sums, and writes them. It is correct only while no other call
// changes the offer or an account. MULTI makes the writes atomic, but does not keep others out between read and write.
func (m *market) buy(ctx context.Context, o offer, buyer string) (outcome, error) {
	p := m.rdb.Pipeline()
	price := p.ZScore(ctx, m.offers(), o.member())
	buyers, sellers := p.HGet(ctx, m.account(buyer), funds), p.HGet(ctx, m.account(o.seller), funds)
	_, _ = p.Exec(ctx) // each command has its own error
	if out, err := m.check(o, price, buyers); err != nil || out != done {
		return out, err
	}
	buyersFunds, err := buyers.Int64()
	if err != nil {
		return gone, err
	}
	sellersFunds, err := sellers.Int64()
	if err != nil {
		return gone, err
	}
	_, err = m.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, m.account(buyer), funds, buyersFunds-o.price)
		p.HSet(ctx, m.account(o.seller), funds, sellersFunds+o.price)
		m.queueHandOver(ctx, p, o, buyer)
		return nil
	})
	return done, err
}

// buyAdding is buy for guards that protect the offer only. Buyers of other items may change the seller's account at the
// same time, so it adds to the account instead of writing a new sum.
func (m *market) buyAdding(ctx context.Context, o offer, buyer string) (outcome, error) {
	p := m.rdb.Pipeline()
	price, buyers := p.ZScore(ctx, m.offers(), o.member()), p.HGet(ctx, m.account(buyer), funds)
	_, _ = p.Exec(ctx) // each command has its own error
	if out, err := m.check(o, price, buyers); err != nil || out != done {
		return out, err
	}
	_, err := m.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		m.queuePurchase(ctx, p, o, buyer)
		return nil
	})
	return done, err
}

func (m *market) queuePurchase(ctx context.Context, p redis.Pipeliner, o offer, buyer string) {
	p.HIncrBy(ctx, m.account(o.seller), funds, o.price)
	p.HIncrBy(ctx, m.account(buyer), funds, -o.price)
	m.queueHandOver(ctx, p, o, buyer)
}

func (m *market) queueHandOver(ctx context.Context, p redis.Pipeliner, o offer, buyer string) {
	p.SAdd(ctx, m.inventory(buyer), o.item)
	p.ZRem(ctx, m.offers(), o.member())
}

// check reports, from the values read, whether the offer still exists and the buyer can pay.
func (m *market) check(o offer, price *redis.FloatCmd, buyers *redis.StringCmd) (outcome, error) {
	if errors.Is(price.Err(), redis.Nil) {
		return gone, nil
	} else if price.Err() != nil {
		return gone, price.Err()
	}
	has, err := buyers.Int64()
	if err != nil {
		return gone, err
	}
	if int64(price.Val()) != o.price || has < o.price {
		return gone, nil
	}
	if m.meanwhile != nil {
		m.meanwhile()
	}
	return done, nil
}

const (
	prices       = 100  // maximum price; the minimum is 1
	offersBefore = 1000 // offers at the start of a run
	startFunds   = math.MaxInt64 >> 16
)

func somePrice() int64 { return 1 + rand.Int64N(prices) }

// newItem returns a new unique item.
func newItem() string { return "item-" + strconv.FormatUint(rand.Uint64(), 36) }
