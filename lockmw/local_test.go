package lockmw_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/lockmw"
)

func TestLocalExpireLosesTheHold(t *testing.T) {
	local := lockmw.NewLocal()
	ctx, hold, err := local.Lock(t.Context(), "user:42")
	if err != nil {
		t.Fatal(err)
	}
	local.Expire("user:42")
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
		t.Errorf("cause is %v, want ErrLost", cause)
	}
	if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Unlock after the loss: %v, want ErrLost", err)
	}
}

func TestLocalReadersShareAndKeepTheTokenOfADowngradedWriter(t *testing.T) {
	local := lockmw.NewLocal()
	ctx, writer, err := local.Lock(t.Context(), "item:7")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := local.RLocker().Lock(t.Context(), "item:7", lockmw.WithWait(0)); !errors.Is(err, lockmw.ErrBusy) {
		t.Errorf("reading while another writes: %v, want ErrBusy", err)
	}
	if err := local.Downgrade(ctx, writer); err != nil {
		t.Fatal(err)
	}
	_, reader, err := local.RLocker().Lock(t.Context(), "item:7", lockmw.WithWait(0))
	if err != nil {
		t.Fatal(err)
	}
	if reader.Token() != writer.Token() {
		t.Errorf("the reader has token %d, the writer had %d", reader.Token(), writer.Token())
	}
	if _, _, err := local.TryLock(ctx, "item:7"); !errors.Is(err, lockmw.ErrUpgrade) {
		t.Errorf("writing within a hold for reading: %v, want ErrUpgrade", err)
	}
	for _, h := range []*lockmw.Hold{writer, reader} {
		if _, _, err := local.TryLock(t.Context(), "item:7"); !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("writing while others read: %v, want ErrBusy", err)
		}
		if err := h.Unlock(); err != nil {
			t.Error(err)
		}
	}
	if _, h, err := local.TryLock(t.Context(), "item:7"); err != nil || h.Token() <= writer.Token() {
		t.Errorf("writing when nobody reads any more: %v", err)
	}
}

func TestLocalDowngradesOnlyWhatItHasForWriting(t *testing.T) {
	local, other := lockmw.NewLocal(), lockmw.NewLocal()
	ctx, reader, err := local.RLocker().Lock(t.Context(), "item:7")
	if err != nil {
		t.Fatal(err)
	}
	_, elsewhere, err := other.Lock(t.Context(), "item:7")
	if err != nil {
		t.Fatal(err)
	}
	for what, h := range map[string]*lockmw.Hold{
		"a hold for reading": reader, "another Local's hold": elsewhere, "no hold": nil,
	} {
		if err := local.Downgrade(ctx, h); !errors.Is(err, lockmw.ErrNotHeld) {
			t.Errorf("Downgrade of %s: %v, want ErrNotHeld", what, err)
		}
	}
	other.Expire("item:7")
	if err := other.Downgrade(ctx, elsewhere); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Downgrade of a lost hold: %v, want ErrLost", err)
	}
}

func TestLocalKeepsThePlaceOfATicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local, order := lockmw.NewLocal(), make(chan string, 2)
		_, hold, err := local.Lock(t.Context(), "item:7")
		if err != nil {
			t.Fatal(err)
		}
		ticket := lockmw.WithPlace("task:1", time.Minute)
		if _, _, err := local.TryLock(t.Context(), "item:7", ticket); !errors.Is(err, lockmw.ErrBusy) {
			t.Fatalf("trying a held key: %v, want ErrBusy", err)
		}
		wait := func(name string, opts ...lockmw.Option) {
			go func() {
				_, h, err := local.Lock(t.Context(), "item:7", opts...)
				if err != nil {
					t.Error(err)
					return
				}
				order <- name
				_ = h.Unlock()
			}()
			synctest.Wait()
		}
		var places []int
		wait("behind", lockmw.WithObserver(&lockmw.Observer{
			Contended: func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) { places = append(places, c.Position) },
			Waiting:   func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) { places = append(places, c.Position) },
		}))
		wait("ticket", ticket)
		time.Sleep(time.Second) // in a bubble: until the one behind has been told
		synctest.Wait()
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
		if first, second := <-order, <-order; first != "ticket" || second != "behind" {
			t.Errorf("%s ran before %s", first, second)
		}
		if !slices.Equal(places, []int{1, 2}) {
			t.Errorf("the call behind was told that it is at %v, want 1 and then 2", places)
		}
	})
}

func BenchmarkLocal(b *testing.B) {
	benchmarkLock(b, context.Background(), lockmw.NewLocal())
}

func BenchmarkReentry(b *testing.B) {
	local := lockmw.NewLocal()
	ctx, hold, err := local.Lock(context.Background(), "user:42")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = hold.Unlock() }()
	benchmarkLock(b, ctx, local)
}

func benchmarkLock(b *testing.B, ctx context.Context, l lockmw.Locker) {
	b.ReportAllocs()
	for b.Loop() {
		_, hold, err := l.Lock(ctx, "user:42")
		if err != nil {
			b.Fatal(err)
		}
		if err := hold.Unlock(); err != nil {
			b.Fatal(err)
		}
	}
}
