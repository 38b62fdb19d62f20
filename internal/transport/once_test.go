package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
)

var increment = redis.NewScript(`return redis.call('INCR', KEYS[1])`)

func TestWithoutRepeatsTheCallerLearnsOfALostAnswer(t *testing.T) {
	server := redistest.Mini(t)
	wire := server.NewWire()
	rdb := server.NewClient(t, wire.Use)
	run := func(rdb redis.Scripter, key string) (int64, error) {
		return increment.Run(context.Background(), rdb, []string{key}).Int64()
	}
	if _, err := run(rdb, "a"); err != nil { // the server knows the script
		t.Fatal(err)
	}
	wire.LoseReply("a")
	if n, err := run(rdb, "a"); n != 3 || err != nil {
		t.Errorf("by go-redis: %d, %v, want a repetition", n, err)
	}
	once := transport.WithoutRepeats(rdb)
	wire.LoseReply("b")
	if _, err := run(once, "b"); !transport.MayHaveRun(err) {
		t.Errorf("%v, want the error of a lost answer", err)
	}
	if n, err := run(once, "b"); n != 2 || err != nil {
		t.Errorf("%d, %v, want one earlier run", n, err)
	}
	rdb.ScriptFlush(t.Context())
	if n, err := run(once, "b"); n != 3 || err != nil {
		t.Errorf("a server without the script: %d, %v", n, err)
	}
}

func TestMayHaveRun(t *testing.T) {
	for err, want := range map[error]bool{
		io.EOF:                   true,
		context.DeadlineExceeded: true,
		&net.OpError{Op: "read", Err: errors.New("reset")}:   true,
		&net.OpError{Op: "dial", Err: errors.New("refused")}: false,
		redis.ErrClosed:      false,
		redis.ErrPoolTimeout: false,
		redis.Nil:            false,
	} {
		if got := transport.MayHaveRun(err); got != want {
			t.Errorf("%v: %t", err, got)
		}
	}
}
