package idempotency_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
)

// BenchmarkOnce compares a first run with SET NX and SET, and a replay with GET, on a real server.
func BenchmarkOnce(b *testing.B) {
	s := redistest.Redis(b)
	once := idempotency.New(newClient(b, s))
	rdb := s.NewClient(b)
	ctx := context.Background()
	do := func(b *testing.B, id string) {
		b.Helper()
		_, err := idempotency.Do(ctx, once, idempotency.Key{Scope: "user", ID: id}, order{"tea"}, idempotency.Refuse,
			func(context.Context, order) (receipt, error) { return receipt{1}, nil })
		if err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	next := func() string { n++; return strconv.Itoa(n) }
	b.Run("first run", func(b *testing.B) {
		for b.Loop() {
			do(b, next())
		}
	})
	b.Run("set nx, set", func(b *testing.B) {
		for b.Loop() {
			key := next()
			if err := rdb.SetNX(ctx, key, "open", time.Hour).Err(); err != nil {
				b.Fatal(err)
			}
			if err := rdb.Set(ctx, key, `{"Number":1}`, time.Hour).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("replay", func(b *testing.B) {
		do(b, "replayed")
		for b.Loop() {
			do(b, "replayed")
		}
	})
	b.Run("get", func(b *testing.B) {
		if err := rdb.Set(ctx, "answer", `{"Number":1}`, time.Hour).Err(); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := rdb.Get(ctx, "answer").Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
