package consume_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// The key of a message is often made of a payload that anybody may have sent.
func TestAKeyFunctionThatPanicsIsAFailure(t *testing.T) {
	asked := make(chan error, 1)
	key := func(context.Context, string) (string, error) { panic("nil map") }
	p := consume.New(quiet{lockmw.NewLocal()}, key, func(context.Context, string) error { return nil },
		func(_ context.Context, _ string, _ int, err error) error { asked <- err; return nil }).Open(func(string) {})
	submit(t, p, "a1")
	if err := usertest.Receive(t, "GiveUp is asked", asked); !errors.Is(err, consume.ErrPanic) || !strings.Contains(err.Error(), "nil map") {
		t.Error(err)
	}
	p.Close(t.Context())
}

func TestAMessageWhoseGiveUpPanicsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		p := consume.New(quiet{lockmw.NewLocal()}, itself, func(context.Context, string) error { return errStock },
			func(_ context.Context, m string, attempt int, err error) error {
				if j.add(m, attempt); attempt == 1 {
					panic("nil map")
				}
				return nil
			}).Open(j.done)
		submit(t, p, "a1")
		time.Sleep(time.Minute)
		j.want(t, "a1 1", "a1 2", "done a1")
		p.Close(now())
	})
}

// A loud is a Locker whose log cannot be written.
type loud struct{ lockmw.Locker }

type loudHandler struct{ slog.Handler }

func (loud) Logger() *slog.Logger { return slog.New(loudHandler{}) }

func (loudHandler) Enabled(context.Context, slog.Level) bool { panic("nil map") }

// The process, and the other messages, must not suffer.
func TestAMessageWhoseFailureCannotBeLoggedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		p := consume.New(loud{lockmw.NewLocal()}, itself, func(context.Context, string) error { return errStock },
			func(_ context.Context, m string, attempt int, err error) error {
				if j.add(m, attempt); attempt == 1 {
					return err
				}
				return nil
			}).Open(j.done)
		submit(t, p, "a1")
		time.Sleep(time.Minute)
		j.want(t, "a1 1", "a1 2", "done a1")
		p.Close(now())
	})
}
