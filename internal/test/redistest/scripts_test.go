package redistest_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
)

func TestAKnownScriptNeedNotBeLoaded(t *testing.T) {
	t.Parallel()
	const source = "return redis.call('INCR', KEYS[1])"
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	sha := redis.NewScript(source).Hash()
	s.Know(t, map[string]string{sha: source})
	run := func() (any, error) { return rdb.EvalSha(t.Context(), sha, []string{"n"}).Result() }
	for want := range int64(2) {
		if got, err := run(); err != nil || got != want+1 {
			t.Fatalf("run %d: %v, %v", want+1, got, err)
		}
	}
	if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := run(); err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
		t.Errorf("a run after SCRIPT FLUSH: %v, want NOSCRIPT", err)
	}
}
