package env

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/test/redistest"
)

// guest is the user with which scenarios inspect a shared server. The server refuses it commands that would disturb other
// scenarios.
const guest = "guest"

func share(t testing.TB, d redistest.Deployment) redistest.Deployment {
	t.Helper()
	for _, s := range d.Servers() {
		err := redistest.SetUser(t.Context(), s.NewClient(t), guest, "on", "nopass", "~*", "&*",
			"+@all", "-@dangerous", "-script", "+script|load", "+script|exists", "+cluster|slots", "+cluster|shards", "+readonly")
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func asGuest(o *redis.Options) { o.Username, o.Password = guest, "-" }

// watch makes pace account for the servers' processor time: they also wait for processors.
func watch(t testing.TB, pace *judge.Pace, d redistest.Deployment) {
	for _, s := range d.Servers() {
		rdb := s.NewClient(t, func(o *redis.Options) { o.ReadTimeout = Patience })
		t.Cleanup(pace.Watch(s.Addr(), func() {
			if err := rdb.Ping(context.Background()).Err(); err != nil { // also while the test ends
				t.Errorf("a shared server does not answer: %v", err)
			}
		}))
	}
}
