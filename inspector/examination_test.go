package inspector_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
)

func TestWhatIsWrongWithTheServerIsShown(t *testing.T) {
	d := newDeskOn(t, redistest.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))
	d.await("/redis", "Examination")
	page := d.get("/redis", http.StatusOK)
	if !strings.Contains(page, `<span class="badge failure">failure</span>`) || !strings.Contains(page, "maxmemory-policy allkeys-lru: a full server throws locks away") ||
		!strings.Contains(page, "CONFIG SET maxmemory-policy noeviction") {
		t.Errorf("the page is\n%s", page)
	}
	var answer struct {
		Findings []struct{ Check, Verdict, Saw, Remedy string }
	}
	if err := json.Unmarshal([]byte(d.get("/redis.json", http.StatusOK)), &answer); err != nil {
		t.Fatal(err)
	}
	verdicts := make(map[string]string)
	for _, f := range answer.Findings {
		verdicts[f.Check] = f.Verdict
	}
	if verdicts["eviction"] != "failure" || verdicts["connection"] != "ok" || verdicts["rights"] != "" {
		t.Errorf("%+v", answer)
	}
	if keys := d.server.NewClient(t).Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("looking at the page has written %v", keys)
	}
}
