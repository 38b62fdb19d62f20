package scripttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// What renewals answer.
var (
	Renewed    = script.Renewed{Outcome: script.Done}
	Contended  = script.Renewed{Outcome: script.Done, Contended: true}
	NotRenewed = script.Renewed{Outcome: script.NotHeld}
)

var outcomes = map[script.Outcome]string{
	script.Unknown: "unknown", script.Held: "held", script.Queued: "queued", script.Over: "over", script.Again: "again",
	script.Done: "done", script.More: "more", script.NotHeld: "not held",
}

// Want checks an outcome.
func (d *Driver) Want(what string, got, want script.Outcome) {
	d.Helper()
	if got != want {
		d.Errorf("%s: %s, want %s", what, outcomes[got], outcomes[want])
	}
}

// WantRenewed checks what a renewal answered.
func (d *Driver) WantRenewed(what string, got, want script.Renewed) {
	d.Helper()
	if got != want {
		d.Errorf("%s: %s, contended: %t; want %s, contended: %t", what, outcomes[got.Outcome], got.Contended, outcomes[want.Outcome], want.Contended)
	}
}

// WantHeld checks that a lock without further tokens is held.
func (d *Driver) WantHeld(what string, got script.Acquired) {
	d.Helper()
	if got.Outcome != script.Held || got.Grant.Token < 1 || got.Grant.Tokens != 1 {
		d.Errorf("%s: %+v, want it to be held", what, got)
	}
}

// WantQueued checks the ticket that a request has got.
func (d *Driver) WantQueued(what string, got script.Acquired, position, queued int) {
	d.Helper()
	if got.Outcome != script.Queued || got.Wait.Position != position || got.Wait.Queued != queued {
		d.Errorf("%s: %+v, want it to be queued as number %d of %d", what, got, position, queued)
	}
}

// WantHolder checks who has the lock for itself: for nobody id is "".
func (d *Driver) WantHolder(id string) {
	d.Helper()
	got, err := d.Redis.HGet(d.Context(), d.Keys.Holder(), "id").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		d.Fatal(err)
	}
	if got != id {
		d.Errorf("held by %q, want %q", got, id)
	}
}

// WantReaders checks who reads.
func (d *Driver) WantReaders(ids ...string) {
	d.Helper()
	sc := d.Look()
	got := make([]string, 0, len(ids))
	for id := range sc.Readers() {
		got = append(got, id)
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(ids))
	if !slices.Equal(got, want) {
		d.Errorf("%q read, want %q\n%v", got, want, sc)
	}
}

// WantWriter checks who writes: for nobody id is "".
func (d *Driver) WantWriter(id string) {
	d.Helper()
	if sc := d.Look(); sc.HolderID() != id || id != "" && sc.Holder.Fields["mode"] != core.Write.String() {
		d.Errorf("%q writes, want %q\n%v", sc.HolderID(), id, sc)
	}
}

// Ends is when a reader's hold does.
func (d *Driver) Ends(id string) time.Time {
	d.Helper()
	sc := d.Look()
	r, ok := sc.Readers()[id]
	if !ok {
		d.Errorf("%s does not read\n%v", id, sc)
	}
	return r.Ends
}

// Expire makes the time of readers be over.
func (d *Driver) Expire(ids ...string) {
	d.Helper()
	sc := d.Look()
	for _, id := range ids {
		_, rest, ok := strings.Cut(sc.Holder.Fields["reader:"+id], " ")
		if !ok {
			d.Fatalf("%s does not read", id)
		}
		ago := sc.Now.Add(-time.Millisecond).UnixMilli()
		d.Redis.HSet(d.Context(), d.Keys.Holder(), "reader:"+id, fmt.Sprint(ago, " ", rest), "next", ago)
	}
}

// Token is that of the hold, or of the readers.
func (d *Driver) Token() int64 {
	d.Helper()
	token, ok := d.Look().Holder.Digits("token")
	if !ok {
		d.Fatalf("nobody has it: %v", d.Look())
	}
	return token
}
