package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// A wanted is a key whose status is read, with the kept places of these names.
type wanted struct {
	key     string
	kept    []string
	byQueue bool // a scan found the key's queue

	status *Status
	err    error // of the server, or of parsing its answer
}

// While a Cluster moves a slot, reading a status is retried.
const (
	movingTries = 20
	movingPause = 100 * time.Millisecond
)

// readAll reads the statuses of all, in one pipeline for each node of a Cluster.
func (i *Inspector) readAll(ctx context.Context, s *transport.Sender, all []*wanted) {
	i.readOnce(ctx, s, all)
	for range movingTries {
		moving := slices.DeleteFunc(slices.Clone(all), func(w *wanted) bool { return !transport.IsMoving(w.err) })
		if len(moving) == 0 || !pause.For(ctx, movingPause) {
			return
		}
		for _, w := range moving {
			i.readOnce(ctx, s, []*wanted{w})
		}
	}
}

// readOnce reads statuses in a pipeline. A single status is a plain command, because for commands the client follows a slot that moves.
func (i *Inspector) readOnce(ctx context.Context, s *transport.Sender, all []*wanted) {
	done := make(chan struct{}, len(all))
	calls := make([]*transport.Call, len(all))
	for j, w := range all {
		keys := i.layout.KeySet(w.key)
		question := script.Status{Keys: &keys, Kept: w.kept}
		calls[j] = question.Call(ctx, i.scripts, func(r *transport.Reply) {
			stored, err := script.StatusAnswer(r)
			if err == nil {
				w.status, err = i.statusOf(w, stored)
			}
			w.err = err
			done <- struct{}{}
		})
	}
	if len(calls) == 1 {
		s.Start(calls[0])
		<-done
		return
	}
	s.RunBatch(ctx, calls)
}

// failure is the error of w in the form for callers.
func (w *wanted) failure() error {
	if errors.Is(w.err, core.ErrWrongType) {
		return w.err
	}
	return transport.Failure(w.err)
}

// isOwn reports whether the error concerns this key alone.
func (w *wanted) isOwn() bool {
	return errors.Is(w.failure(), core.ErrWrongType) || transport.IsMoving(w.err)
}

// statusOf converts the stored data of a key.
func (i *Inspector) statusOf(w *wanted, stored *script.Stored) (s *Status, err error) {
	s = &Status{Key: w.key, Record: recordOf(&stored.Record, stored.Holder["id"])}
	present := make(map[string]bool) // places whose callers hold the lock or wait for it
	switch h := stored.Holder; {
	case len(h) == 0:
	case h["mode"] == core.Read.String():
		err = i.readReaders(s, h, stored.Now)
	case h["mode"] == core.Permit.String():
		for _, name := range i.readPermits(s, h, stored.Now) {
			present[name] = true
		}
	default:
		err = i.readHolder(s, h, stored.TTL, stored.Now)
		present[script.ParseHolderInfo(h["owner"]).Place] = true
	}
	if err != nil {
		return nil, err
	}
	tickets := 0
	for _, id := range stored.Tickets {
		if id != script.ReadersTicket {
			w, place := i.readTicket(stored.TicketTexts[id], stored)
			tickets++
			w.Ticket, w.Position = id, tickets
			s.Waiters = append(s.Waiters, w)
			present[place] = true
		}
	}
	for j, name := range w.kept {
		if j >= len(stored.Kept) {
			break
		}
		place, err := strconv.ParseInt(stored.Kept[j].At, 10, 64)
		if err != nil || place <= 0 || present[name] {
			continue // 0: the place has ended
		}
		s.Kept = append(s.Kept, KeptPlace{Name: name, Since: core.Instant(place, time.Microsecond), TTL: stored.Kept[j].TTL})
	}
	slices.SortFunc(s.Kept, func(a, b KeptPlace) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name)) })
	return s, nil
}

// readPermits reads the data of permits.lua, without expired permits, the earliest first. It returns the names of the kept places from
// which the permits came.
func (i *Inspector) readPermits(s *Status, h map[string]string, now time.Time) (places []string) {
	for name, value := range h {
		p, ok := script.ParsePermit(value)
		if !ok || !strings.HasPrefix(name, script.PermitField) || !p.Ends.After(now) {
			continue
		}
		h := core.Holder{
			Process: i.layout.ProcessOf(p.Inbox), TraceParent: p.Trace, Token: p.Token, Since: p.Since, TTL: p.Ends.Sub(now),
			Weight: p.Weight, Slots: p.Slots,
		}
		script.DescribeHolder(&h, p.Holder, now)
		s.Mode, s.Holders = core.Permit.String(), append(s.Holders, h)
		places = append(places, script.ParseHolderInfo(p.Holder).Place)
	}
	sortHolders(s.Holders)
	return places
}

// readReaders reads the data of readers.lua, without expired readers, the earliest first.
func (i *Inspector) readReaders(s *Status, h map[string]string, now time.Time) error {
	token, err := strconv.ParseInt(h["token"], 10, 64)
	for name, value := range h {
		if !strings.HasPrefix(name, "reader:") || err != nil {
			continue
		}
		fields := append(strings.Split(value, " "), "")
		if len(fields) < 6 {
			err = errors.New("a reader lacks fields")
			break
		}
		ends, endsErr := strconv.ParseInt(fields[0], 10, 64)
		since, sinceErr := strconv.ParseInt(fields[1], 10, 64)
		err = errors.Join(endsErr, sinceErr)
		if ttl := time.UnixMilli(ends).Sub(now); ttl > 0 {
			h := core.Holder{
				Process:     i.layout.ProcessOf(fields[2]),
				TraceParent: fields[4], Token: token, Since: core.Instant(since, time.Microsecond), TTL: ttl,
			}
			script.DescribeHolder(&h, fields[3], now)
			s.Holders = append(s.Holders, h)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: the hash lacks fields of a lock", core.ErrWrongType)
	}
	if len(s.Holders) > 0 {
		s.Mode = core.Read.String()
	}
	sortHolders(s.Holders)
	return nil
}

// sortHolders sorts holders by their start.
func sortHolders(all []core.Holder) {
	slices.SortFunc(all, func(a, b core.Holder) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Owner, b.Owner))
	})
}

func (i *Inspector) readHolder(s *Status, h map[string]string, ttl time.Duration, now time.Time) error {
	token, tokenErr := strconv.ParseInt(h["token"], 10, 64)
	since, sinceErr := strconv.ParseInt(cmp.Or(h["since"], h["token"]), 10, 64)
	if err := errors.Join(tokenErr, sinceErr); err != nil || h["id"] == "" || h["inbox"] == "" {
		return fmt.Errorf("%w: the hash lacks fields of a lock", core.ErrWrongType)
	}
	s.Mode = cmp.Or(h["mode"], core.Exclusive.String())
	s.Holders = []core.Holder{{
		Process:     i.layout.ProcessOf(h["inbox"]),
		TraceParent: h["trace"], Token: token, Since: core.Instant(since, time.Microsecond), TTL: max(ttl, 0),
	}}
	script.DescribeHolder(&s.Holders[0], h["owner"], now)
	s.Holders[0].Lingers = h["id"] == "-"
	if calls := countOf(h["waiters"]); calls > 0 {
		w := Waiter{Process: s.Holders[0].Process, Mode: s.Mode, Calls: calls}
		if fields := strings.Fields(h["waiters"]); len(fields) == 3 { // the start of the first wait is known
			if ms, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				w.Since = core.Instant(ms, time.Millisecond)
			}
		}
		s.Waiters = append(s.Waiters, w)
	}
	return nil
}

// mostCalls is the maximum number of calls that a process can have waiting. A forged number must not overflow a sum.
const mostCalls = 1_000_000

// countOf reads the count of calls at the beginning of a field; 0 if there is none.
func countOf(field string) int {
	count, _, _ := strings.Cut(field, " ")
	n, _ := strconv.Atoi(count)
	return min(max(n, 0), mostCalls)
}

// readTicket reads the data of acquire.lua and poll.lua for a ticket, and the last sign of its process. That is its last beat, whose sign
// says whether it was subscribed, or the time when it queued the ticket. It returns the name of the ticket's kept place as well.
func (i *Inspector) readTicket(text string, stored *script.Stored) (w Waiter, place string) {
	w.Calls = 1
	if fields := strings.Fields(text); len(fields) >= 6 {
		if ms, err := strconv.ParseInt(strings.TrimLeft(stored.Seen[fields[3]], "+-"), 10, 64); err == nil {
			w.Seen = core.Instant(ms, time.Millisecond)
		}
		wanted, _, _ := strings.Cut(fields[2], ":") // the ticket's secret is not shown
		at, calls, _ := strings.Cut(fields[5], "*")
		w.Calls = max(countOf(calls), 1)
		w.Mode, w.Process = fields[0], i.layout.ProcessOf(fields[3])
		info := script.ParseHolderInfo(fields[4])
		w.Label, place, w.Process = info.Label, info.Place, cmp.Or(info.Process, w.Process)
		if w.Mode == core.Permit.String() {
			w.Weight, _ = strconv.Atoi(wanted)
		}
		if since, err := strconv.ParseInt(at, 10, 64); err == nil {
			w.Since = core.Instant(since, time.Microsecond)
			if w.Seen.Before(w.Since) {
				w.Seen = w.Since
			}
		}
	}
	return w, place
}
