package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
)

// A desk runs the scripts for one key by hand, as often and as late as a test wants.
type desk struct {
	*testing.T
	rdb     *redis.Client
	name    name
	scripts scripts
	tidy    bool // the keys are checked after each run
}

func newDesk(t *testing.T, s *redistest.Server) *desk {
	e := &Engine{cfg: DefaultConfig(), fence: "lockmw:fence"}
	return &desk{T: t, rdb: s.NewClient(t), name: e.nameOf(t.Name()), scripts: newScripts(true)}
}

// onDesk runs test on each server.
func onDesk(t *testing.T, test func(d *desk)) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) { test(newDesk(t, s)) })
}

func (d *desk) try(s *script, keys []string, args ...any) (*reply, error) {
	d.Helper()
	cmd := d.rdb.Eval(d.Context(), s.source, keys, args...)
	r := replyTo(cmd, time.Time{})
	if d.tidy {
		d.checkTidy()
	}
	return r, r.err
}

func (d *desk) run(s *script, keys []string, args ...any) *reply {
	d.Helper()
	r, err := d.try(s, keys, args...)
	if err != nil {
		d.Fatal(err)
	}
	return r
}

func (d *desk) keys(more ...string) []string {
	return append([]string{d.name.holder, d.name.queue(), d.name.tickets(), d.name.fence.(string), d.name.readers()}, more...)
}

// request runs acquire.lua; mode is "wait" or "try".
func (d *desk) request(id, mode, former string, tokens int) (*reply, error) {
	queued := tokens
	if mode == "try" {
		queued = 0
	}
	args := []any{id, 30_000, "lockmw:inbox:" + id, "owner-" + id, fmt.Sprint("-", queued)}
	if tokens > 1 || former != "" {
		args = append(args, "exclusive", tokens, "")
	}
	if former != "" {
		args = append(args, former, "", 0, 0)
	}
	return d.try(d.scripts.acquire, d.keys(d.name.done(id)), args...)
}

func (d *desk) acquire(id, mode string) (kind, token int64) {
	d.Helper()
	r, err := d.request(id, mode, "", 1)
	if err != nil {
		d.Fatal(err)
	}
	if token, ok := r.token(); ok {
		return 1, token
	}
	kind = r.int()
	if kind == 1 {
		token = r.int()
	}
	return kind, token
}

func (d *desk) handOver(former, id string) int64 {
	d.Helper()
	r, err := d.request(id, "wait", former, 1)
	if err != nil {
		d.Fatal(err)
	}
	return r.int()
}

func (d *desk) release(id string, mark time.Duration) int64 {
	d.Helper()
	if mark == 0 {
		return d.run(d.scripts.release, d.keys(), id).int()
	}
	return d.run(d.scripts.release, d.keys(d.name.done(id)), id, 0, mark.Milliseconds()).int()
}

func (d *desk) cancel(id string) {
	d.Helper()
	d.run(d.scripts.cancel, d.keys(d.name.done(id)), id, doneMillis, 0)
}

func (d *desk) renew(id string, lease time.Duration) int64 {
	d.Helper()
	return d.run(d.scripts.renew, d.keys()[:1], id, lease.Milliseconds()).int()
}

// poll runs poll.lua for one id: 1 held, 0 queued, -1 gone.
func (d *desk) poll(id string) int64 {
	d.Helper()
	r := d.run(d.scripts.poll, d.keys(), "-", id, 30_000)
	r.int()
	r.int()
	r.int()
	return r.list()[0].int()
}

func (d *desk) wantHolder(id string) {
	d.Helper()
	got, err := d.rdb.HGet(d.Context(), d.name.holder, "id").Result()
	if err != nil && err != redis.Nil {
		d.Fatal(err)
	}
	if got != id {
		d.Errorf("held by %q, want %q", got, id)
	}
}

func (d *desk) wantKind(what string, got, want int64) {
	d.Helper()
	if got != want {
		d.Errorf("%s: answered %d, want %d", what, got, want)
	}
}
