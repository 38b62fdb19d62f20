package main

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed list.lua
	listLua string
	//go:embed buy.lua
	buyLua string

	listScript, buyScript = redis.NewScript(listLua), redis.NewScript(buyLua)
)

// A scripted checks and writes in one Lua script, which Redis runs without interruption.
type scripted struct{ *market }

func (s scripted) list(ctx context.Context, o offer) (outcome, error) {
	keys := []string{s.offers(), s.inventory(o.seller)}
	return outcomeOf(listScript.Run(ctx, s.rdb, keys, o.item, o.member(), o.price).Bool())
}

func (s scripted) buy(ctx context.Context, o offer, buyer string) (outcome, error) {
	keys := []string{s.offers(), s.account(buyer), s.account(o.seller), s.inventory(buyer)}
	return outcomeOf(buyScript.Run(ctx, s.rdb, keys, o.item, o.member(), o.price).Bool())
}

// outcomeOf converts a script's answer.
func outcomeOf(yes bool, err error) (outcome, error) {
	if yes && err == nil {
		return done, nil
	}
	return gone, err
}
