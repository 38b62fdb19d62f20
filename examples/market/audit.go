package main

import (
	"context"
	"fmt"
	"strings"
)

// An audit lists the errors in money and items after a run.
type audit struct {
	moneyOff  int64 // sum of all accounts minus the initial sum; negative if money is lost
	soldTwice int   // items with more than one owner
	vanished  int   // items without an owner
}

func (a audit) right() bool { return a == audit{} }

// audit counts every item in all inventories and in the market, and adds up all accounts.
func (c *cell) audit(ctx context.Context, m *market) (a audit, err error) {
	places := make(map[string]int)
	for _, user := range c.users() {
		has, err := m.rdb.HGet(ctx, m.account(user), funds).Int64()
		if err != nil {
			return a, fmt.Errorf("account of %s: %w", user, err)
		}
		a.moneyOff += has - startFunds
		items, err := m.rdb.SMembers(ctx, m.inventory(user)).Result()
		if err != nil {
			return a, err
		}
		for _, item := range items {
			places[item]++
		}
	}
	const page = 10_000
	for from := int64(0); ; from += page {
		members, err := m.rdb.ZRange(ctx, m.offers(), from, from+page-1).Result()
		if err != nil {
			return a, err
		}
		for _, member := range members {
			item, _, _ := strings.Cut(member, ".")
			places[item]++
		}
		if len(members) < page {
			break
		}
	}
	for _, n := range places {
		if n > 1 {
			a.soldTwice++
		}
	}
	a.vanished = int(c.minted.Load()) - len(places)
	return a, nil
}
