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

// Scripted has Redis check and write in one go, with nobody in between.
type scripted struct{ *market }

func (s scripted) list(ctx context.Context, o offer) (outcome, error) {
	keys := []string{s.offers(), s.inventory(o.seller)}
	return told(listScript.Run(ctx, s.rdb, keys, o.item, o.member(), o.price).Bool())
}

func (s scripted) buy(ctx context.Context, o offer, buyer string) (outcome, error) {
	keys := []string{s.offers(), s.account(buyer), s.account(o.seller), s.inventory(buyer)}
	return told(buyScript.Run(ctx, s.rdb, keys, o.item, o.member(), o.price).Bool())
}

// told is what a script's answer means.
func told(yes bool, err error) (outcome, error) {
	if yes && err == nil {
		return done, nil
	}
	return gone, err
}
