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

// The outcomes of renewals.
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

// WantRenewed checks the answer to a renewal.
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
		d.Errorf("%s: %+v, want held", what, got)
	}
}

// WantQueued checks the ticket of a request.
func (d *Driver) WantQueued(what string, got script.Acquired, position, queued int) {
	d.Helper()
	if got.Outcome != script.Queued || got.Wait.Position != position || got.Wait.Queued != queued {
		d.Errorf("%s: %+v, want queued as number %d of %d", what, got, position, queued)
	}
}

// WantHolder checks which id holds the lock exclusively; "": none.
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

// WantReaders checks which ids read.
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
		d.Errorf("the readers are %q, want %q\n%v", got, want, sc)
	}
}

// WantWriter checks which id writes; "": none.
func (d *Driver) WantWriter(id string) {
	d.Helper()
	if sc := d.Look(); sc.HolderID() != id || id != "" && sc.Holder.Fields["mode"] != core.Write.String() {
		d.Errorf("the writer is %q, want %q\n%v", sc.HolderID(), id, sc)
	}
}

// Ends returns when a reader's hold ends.
func (d *Driver) Ends(id string) time.Time {
	d.Helper()
	sc := d.Look()
	r, ok := sc.Readers()[id]
	if !ok {
		d.Errorf("%s does not read\n%v", id, sc)
	}
	return r.Ends
}

// Expire ends the time of readers.
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

// Token returns the token of the hold, or of the readers.
func (d *Driver) Token() int64 {
	d.Helper()
	token, ok := d.Look().Holder.Digits("token")
	if !ok {
		d.Fatalf("the lock is free: %v", d.Look())
	}
	return token
}
