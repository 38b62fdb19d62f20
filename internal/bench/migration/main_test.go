package migration_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmw/go/internal/process"
	"github.com/lockmw/go/internal/test/suite"
)

// A spec describes a process.
type spec struct {
	Library, Stage string
	Address        address
}

// A report is a hold: it has Exit only when it has ended.
type report struct {
	ID          int
	Key         string
	Enter, Exit time.Time
	Valid       time.Time // until when it was exclusive; zero: until Exit
}

func TestMain(m *testing.M) {
	process.ChildMain(live)
	suite.Begin()
	m.Run()
}

// live takes and releases locks until the orders end.
func live(s spec, orders *json.Decoder, reports *json.Encoder) error {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the server is killed and restarted
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_ = orders.Decode(new(string))
	}()
	take, err := libraryOf(s.Library).taker(s.Stage, s.Address)
	if err != nil {
		return err
	}
	for id := 0; ctx.Err() == nil; id++ {
		if err := once(ctx, take, id, reports); err != nil {
			return err
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // so that the others get their turns
	}
	return io.EOF
}

// once takes a lock and works with it.
func once(ctx context.Context, take taker, id int, reports *json.Encoder) error {
	r := report{ID: id, Key: []string{"item:1", "item:2"}[rand.N(2)]}
	limit, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	h, err := take(limit, r.Key)
	if err != nil {
		return nil // the server was down, or the lock busy
	}
	r.Enter = time.Now()
	err = reports.Encode(r)
	time.Sleep(rand.N(10 * time.Millisecond))
	r.Exit, r.Valid = time.Now(), h.valid()
	err = errors.Join(err, reports.Encode(r))
	h.release()
	return err
}
