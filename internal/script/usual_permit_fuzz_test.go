package script_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

// The same as FuzzUsualWays, for the fast paths for permits.
func FuzzUsualWaysOfPermits(f *testing.F) {
	race.FindsNothing(f)
	playBothWays(f, permitStories, 100, func(seed uint64) string {
		return scripttest.RandomStory(2*seed+1, permitLine) + "\n" + scripttest.RandomStory(seed, permitLine)
	})
}

// permit plays a line about permits.
func (w *twin) permit(words []string) {
	d := w.stage
	words = append(slices.Clone(words), "", "", "")
	number := func(i, otherwise int) int {
		if n, err := strconv.Atoi(words[i]); err == nil {
			return n
		}
		return otherwise
	}
	switch id := words[1]; words[0] {
	case "permit", "permittry", "permit+", "permitkept":
		a := scripttest.Permit{ID: id, N: min(max(number(2, 2), 1), 1000), Try: words[0] == "permittry", Subscribed: words[0] == "permit+"}
		a.Weight = min(max(number(3, 1), 1), a.N)
		if words[0] == "permitkept" {
			a.Place, a.KeepPlace = "t", time.Minute
		}
		_, _ = d.AcquirePermitOnce(a)
	case "permitpoll":
		_, _ = script.PollAnswer(d.Send(d.PermitPolls("a", "b", "c", "d")), 4, "")
	case "permitrelease", "permitreleasemark", "permitreleasekept":
		r := script.Release{Keys: d.Keys, ID: scripttest.ID(id), Linger: time.Duration(number(2, 0)) * time.Millisecond, Permit: true}
		if r.Mark = words[0] == "permitreleasemark"; words[0] == "permitreleasekept" {
			r.Place = "t"
		}
		_, _ = script.EndedAnswer(d.Send(&r))
	case "permitrenew":
		_, _ = script.RenewAnswer(d.Send(&script.Renew{Keys: d.Keys, ID: scripttest.ID(id), Lease: time.Duration(number(2, 30_000)) * time.Millisecond}))
	case "permitcancel":
		_, _ = script.EndedAnswer(d.Send(&script.Cancel{Keys: d.Keys, ID: id, Mark: words[2] != "", Permit: true}))
	case "permitset": // a field of the hash
		_ = d.Redis.HSet(d.Context(), d.Keys.Holder(), words[2], strings.ReplaceAll(words[3], "_", " ")).Err()
	case "permitticket": // a field of a ticket
		_ = d.Redis.HSet(d.Context(), d.Keys.PermitTickets(), words[2], strings.ReplaceAll(words[3], "_", " ")).Err()
	case "permitqueue": // a place
		_ = d.Redis.Do(d.Context(), "zadd", d.Keys.PermitQueue(), words[2], words[3]).Err()
	case "permitdel":
		_ = d.Redis.Del(d.Context(), map[string]string{"Q": d.Keys.PermitQueue(), "T": d.Keys.PermitTickets()}[id]).Err()
	}
}

// permitLine makes up a line of a story in which calls mostly want one of two or three permits.
func permitLine(r scripttest.Teller) string {
	id := r.Pick("a", "b", "c", "d", "e", "f")
	switch r.IntN(12) {
	case 0:
		return "later " + r.Pick("1", "50", "200", "700", "2500", "40000")
	case 1:
		return r.Pick("permitpoll", "permitpoll", "permitrenew "+id, "permitcancel "+id+r.Pick("", " x"))
	case 2, 3, 4, 5:
		return "permitrelease " + id + r.Pick("", "", "", "", "", " 500")
	case 6:
		return r.Pick("permittry ", "permitkept ", "permit+ ") + id
	case 7:
		return "permit " + id + r.Pick(" 3", " 3 2", " 2 2", " 1")
	}
	return "permit " + id
}

// permitStories cover the boundaries between usual cases and all others.
var permitStories = []string{
	"permit a\npermit b\npermit c\npermit d\npermitrelease a\npermitrelease b\npermitrelease c\npermitrelease d",
	"permit a 1\npermit b 1\npermit c 1\npermitrelease a\npermitrelease b\npermitrelease c",
	"permit a\npermit b\npermit+ c\npermit d\nlater 100\npermitrelease b\npermitrelease a",
	"permit a\npermit b\npermit c\npermit c\npermitcancel d x\npermit d\npermitrelease a\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d 2 2\npermit e\npermitrelease a\npermitrelease b\npermitrelease c\npermitrelease d",
	"permit a\npermit b\npermit c\npermit d 3\npermitrelease a\npermitrelease b",
	"permit a\npermit b\npermit c 3 2\npermit d\npermitrelease a\npermitrelease b",
	"permit a 3 2\npermit b 3\npermit c 3\npermit d 3\npermitrelease a\npermitrelease b",
	"permit a\npermit b\npermit c 1\npermitrelease a\npermitrelease b",
	"permit a\npermit b\npermit c\nlater 760\npermitrelease a",
	"permit a\npermit b\npermit+ c\nlater 760\npermitpoll\npermitrelease a",
	"permit a\npermit b\npermit c\nlater 180\npermit d\nlater 190\npermit e\npermitrelease a",
	"permit a\npermit b\npermit c\nlater 740\npermitpoll\nlater 20\npermit e\npermitrelease a\npermitrelease b",
	"permit a\npermit b\npermit c\npermit e\nlater 740\npermitpoll\nlater 20\npermitrelease a\npermitrelease b",
	"permit a\npermit b\npermit c\npermitrelease a\nlater 2990\npermit d\nlater 20\npermit e\npermitrelease b",
	"permit a\npermit b\nlater 30001\npermit c\npermitrelease a",
	"permit a\npermit b\npermit c\npermitrelease a 400\nlater 401\npermit d\npermitrelease b",
	"permit a\npermit b\npermitkept c\npermitrelease a\npermit d",
	"permit a\npermit b\nF set 2999999999999999\npermit c\npermitrelease a",
	"permit a\npermit b\nF set 123\npermit c\npermitrelease a",
	"permit a\npermit b\nF set 12345678901234.5\npermit c\npermitrelease a",
	"permit a\npermit b\nF rpush x\npermit c\npermitrelease a",
	"permit a\npermit b\npermit c\nF del\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\nF set 2999999999999999\npermitrelease a",
	"permit a\npermit b\npermit c\nF set 123\npermitrelease a",
	"permit a\npermit b\npermit c\nF set 12345678901234.5\npermitrelease a",
	"permit a\npermit b\npermitset x used 1\npermit c\npermitrelease a",
	"permit a\npermit b\npermitset x used 3\npermit c\npermit d\npermitset x used 3\npermitrelease a",
	"permit a\npermit b\npermitset x used 02\npermit c\npermitrelease a",
	"permit a\npermit b\npermitset x used x\npermit c\npermitrelease a",
	"permit a\npermit b\npermitset x map 1x\npermit c\npermitset x map 1x\npermitrelease a",
	"permit a\npermit b\npermitset x map 111\npermit c\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x map 10\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x next 1\npermit d\npermitset x next 1\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x next x\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x next 9007199254740992\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x next 9007199254740990\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x last 1\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x last x\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x mode read\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x p:a x\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x p:a 9999999999999_1_2_2_1_9_i_o\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x p:a 9999999999999_1_2_2_1_0-1_i_o\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x p:a 9999999999999_1_2_2_2_0_i_o\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x p:a 1_1_2_2_1_0_i_o\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x p:a 9999999999999_1_2_2_1_0_i_o_t_x\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x c x\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x c permit_30000_1_i_o_5_2_trace\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x c permit_30000_1_i_o_5_3\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x c permit_30000_0_i_o_5_2\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x c permit_30000_3_i_o_5_2\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x c permit_30000_1001_i_o_5_1001\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x c permit_30000_1_i_o_5\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitticket x d x\npermit e\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitticket x d permit_30000_1_i_o_5_3\npermit e\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitticket x d permit_30000_0_i_o_5_2\npermit e\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitticket x d permit_30000_3_i_o_5_2\npermit e\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitticket x d permit_30000_1001_i_o_5_1001\npermit e\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitticket x @d -1\npermit e\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitticket x @d x\npermit e\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitticket x @c -1\npermit e\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitticket x @c x\npermit e\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x #touched 1\npermit d\npermitticket x #touched 1\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x #touched x\npermit d\npermitticket x #touched x\npermitrelease a",
	"permit a\npermit b\npermitticket x #touched 1\npermit d",
	"permit a\npermit b\npermit c\npermitqueue x 2999999999999999 x\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitqueue x 1 x\npermit d\npermitqueue x 1 x\npermitrelease a",
	"permit a\npermit b\npermit c\npermitqueue x 1234567890123456.5 x\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitdel T\npermit d\npermitdel T\npermitrelease a",
	"permit a\npermit b\npermit c\npermitdel Q\npermit d\npermitdel Q\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitreleasemark a\npermit a\npermitreleasekept b",
	"permitkept a\npermit b\npermit c\npermit d\npermitreleasekept a\npermitreleasekept b",
	"permit a\npermit b\npermit c\nH hdel map\npermit d\npermitrelease a",
	"permit a\npermit b\npermitset x used 12345678901234567\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x last 12345678901234567\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x last 12345678901234567\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x last 2x34567890123\npermit d",
	"permit a\npermit b\npermit c\npermitset x last 2x34567890123\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x last 12\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x next 2x34567890123\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x next 2x34567890123\npermitrelease a",
	"permit a\npermit b\nF set 12345678901234567\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\nF set 12345678901234567\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x used 3\npermitticket x c permit_30000_0_i_o_5_2\npermit d",
	"permit a\npermit b\npermit c\npermitticket x @c -12345678901234567\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x @c -1000000000000\npermit d\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x @c -1000000000000\npermitrelease a",
	"permit a\npermit b\npermit c\npermitticket x @c -12345678901234567\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x p:a 999999999999_1_2_2_1_0_i_o\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x p:a 1000000000000_1_2_2_1_0_i_o\npermitrelease a",
	"permit a\npermit b\npermit c\npermitset x p:a 9999999999999_1_2_2_1_00_i_o\npermitrelease a",
	"permit a\npermit b\npermit c 1\npermitset x used 1\npermitrelease b",
	"permit a\npermit b\npermit e\npermit d\npermitrelease a\nlater 2990\npermitpoll\nlater 20\npermitrelease b",
	"permit a\npermit b\npermit c\npermit d\npermitticket x @d -1000000000000\npermitrelease a",
	"permit a\npermit b\npermit c\npermit d\npermitset x used 3\npermitset x map 111\npermitticket x c permit_30000_1_i_o_5_3\npermitticket x d permit_30000_0_i_o_5_2\npermitrelease a",
	"permit a 1\npermit b 1\npermit c 1\nlater 10\npermitrelease a\npermitrelease b\npermitrelease c",
	"permit a\npermit b\npermit c\npermitrenew b\npermitset x last 1000000000000\npermitrelease a",
	"permit a\npermit b\npermitrenew a 200000\npermit c\npermit d\npermitrelease b",
	"H set x\npermit a\npermitrelease a",
	"wait a\npermit b\npermitrelease a",
}

// A busy semaphore takes the fast paths: see TestABusyLockCostsFewCommands.
func TestABusySemaphoreCostsFewCommands(t *testing.T) {
	d := scripttest.New(t, redistest.Lent(t).NewClient(t), t.Name())
	for _, id := range []string{"z", "a", "b", "c"} {
		d.AcquirePermit(scripttest.Permit{ID: id, N: 2})
		if id == "z" {
			d.ReleasePermit(id) // so that the scripts are known
		}
	}
	before := commandsOf(t, d)
	d.AcquirePermit(scripttest.Permit{ID: "d", N: 2})
	d.ReleasePermit("a")
	const most = 33
	if n := commandsOf(t, d) - before - 1; n > most {
		t.Errorf("%d commands, want %d at most", n, most)
	} else {
		t.Logf("%d commands", n)
	}
	if live := d.LookAtPermits().Live(); !slices.Equal(live, []string{"b", "c"}) {
		t.Errorf("%q have permits", live)
	}
}
