package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/examples/internal/redislog"
	"github.com/lockmw/go/examples/orders/internal/figures"
)

const welcome = `The shop is open at %[1]s until Ctrl-C. Try:

  curl -i %[1]s/users/ann/orders -d '{"item":"item-1"}'     # 201; the same again: 409
  curl %[1]s/items

Three simultaneous clicks; one is accepted:

  for i in 1 2 3; do curl -s %[1]s/users/bob/orders -d '{"item":"item-1"}' & done; wait

Three clicks with one key; each gets the same order, and so does the same again later:

  for i in 1 2 3; do curl -s %[1]s/users/cat/orders -H 'Idempotency-Key: 1' -d '{"item":"item-1"}' & done; wait

`

// serve runs a locked shop until ctx ends.
func (w *world) serve(ctx context.Context, stdout io.Writer) (err error) {
	redis.SetLogger(&redislog.Logger{}) // a service keeps running while Redis is down, so it should log that
	s, err := w.open(ctx, w.Serve, usual(true))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := fmt.Fprintf(stdout, welcome, s.url); err != nil {
		return err
	}
	<-ctx.Done()
	figures.WriteSlowest(stdout, s.slowest.List())
	return nil
}
