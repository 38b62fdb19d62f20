package scripttest

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/internal/script"
)

// Beat runs beat.lua for the process of an id, which may be subscribed to its inbox.
func (d *Driver) Beat(id string, subscribed bool) (known bool) {
	d.Helper()
	known, err := script.BeatAnswer(d.Send(&script.Beat{Alive: d.Keys.Alive(), Inbox: d.Inbox(id), Subscribed: subscribed}))
	d.check("beat", id, err)
	return known
}

// Kill makes the server take the processes of ids for dead: they have neither beaten nor queued a ticket recently, and another
// process has.
func (d *Driver) Kill(ids ...string) {
	d.Helper()
	long := d.now().Add(-2 * script.DeadAfter)
	fields := []any{"#since", long.UnixMilli()}
	for _, id := range ids {
		fields = append(fields, d.Inbox(id), fmt.Sprintf("+%d", long.UnixMilli()))
		for _, tickets := range []string{d.Keys.Tickets(), d.Keys.PermitTickets()} {
			for ticket, text := range d.Redis.HGetAll(d.Context(), tickets).Val() {
				if words := strings.Split(text, " "); len(words) >= 6 && words[3] == d.Inbox(id) {
					d.check("age", ticket, d.Redis.HSet(d.Context(), tickets, ticket, QueuedAt(text, long.UnixMicro())).Err())
				}
			}
		}
	}
	d.check("kill", "", d.Redis.HSet(d.Context(), d.Keys.Alive(), fields...).Err())
	d.check("kill", "", d.Redis.PExpire(d.Context(), d.Keys.Alive(), time.Minute).Err())
	d.OthersBeat()
}

// OthersBeat lets time pass since Kill: without a recent beat of another process the server takes none for dead.
func (d *Driver) OthersBeat() {
	d.Helper()
	d.check("beat", "", d.Redis.HSet(d.Context(), d.Keys.Alive(), "#last", d.now().UnixMilli()).Err())
}

// now returns the server's time.
func (d *Driver) now() time.Time {
	d.Helper()
	now, err := d.Redis.Time(d.Context()).Result()
	d.check("time", "", err)
	return now
}

// QueuedAt returns the text of a ticket that was queued at another time (µs).
func QueuedAt(text string, at int64) string {
	words := strings.Split(text, " ")
	_, calls, several := strings.Cut(words[5], "*")
	if words[5] = fmt.Sprint(at); several {
		words[5] += "*" + calls
	}
	return strings.Join(words, " ")
}
