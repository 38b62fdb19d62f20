package inspector_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestTheHistoryIsInTheOrderOfTimesToTheMillisecond(t *testing.T) {
	d := newDesk(t)
	rdb := d.server.NewClient(t)
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC).UnixMicro()
	for process, lines := range []string{
		fmt.Sprintf(`{"at_us":%d,"event":"acquired","key":"user:42"}`+"\n"+`{"at_us":%d,"event":"released","key":"user:42"}`, at+4000, at+20_000),
		fmt.Sprintf(`{"at_us":%d,"event":"waits","key":"user:42"}`, at+7000),
	} {
		add := &redis.XAddArgs{Stream: "lockmw:events", Values: []any{"process", fmt.Sprint(process), "events", lines}}
		if err := rdb.XAdd(t.Context(), add).Err(); err != nil {
			t.Fatal(err)
		}
	}
	d.await("/key?key=user:42", ">12:00:00.020<")
	page := d.get("/key?key=user:42", http.StatusOK)
	released, waits, acquired := strings.Index(page, ">12:00:00.020<"), strings.Index(page, ">12:00:00.007<"), strings.Index(page, ">12:00:00.004<")
	if released < 0 || waits < released || acquired < waits {
		t.Errorf("at %d, %d and %d of\n%s", released, waits, acquired, page)
	}
}
