package env

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/internal/test/redistest"
)

// guest is the user by which scenarios look at a server that they share: the server refuses what would
// disturb the others.
const guest = "guest"

func share(t testing.TB, d redistest.Deployment) redistest.Deployment {
	t.Helper()
	for _, s := range d.Servers() {
		err := s.NewClient(t).Do(t.Context(), "acl", "setuser", guest, "on", "nopass", "~*", "&*",
			"+@all", "-@dangerous", "-script|flush", "-script|kill", "+cluster|slots", "+cluster|shards", "+readonly").Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func asGuest(o *redis.Options) { o.Username, o.Password = guest, "-" }

// watch has the pace count the time that servers have: they wait for processors, too.
func watch(t testing.TB, pace *judge.Pace, d redistest.Deployment) {
	for _, s := range d.Servers() {
		rdb := s.NewClient(t, func(o *redis.Options) { o.ReadTimeout = Patience })
		pace.Watch(t, s.Addr(), func() {
			if err := rdb.Ping(context.Background()).Err(); err != nil { // also while the test ends
				t.Errorf("a server that is shared does not answer: %v", err)
			}
		})
	}
}
