package lockevents_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

func TestAForcedReleaseIsRecordedWithItsOperator(t *testing.T) {
	b := newBook(t, redistest.Mini(t))
	holder := lockmw.Holder{Process: "web-1:7:abc", Label: "order-1", Token: 7, Since: time.Now().Add(-time.Minute)}
	taken := []lockevents.Taken{{Key: "user:42", Mode: "fair", Holder: holder}}
	for i := range 300 { // more than an entry has
		taken = append(taken, lockevents.Taken{Key: fmt.Sprint("item:", i)})
	}
	if err := b.ForceUnlocked(t.Context(), "alice"+strings.Repeat("ü", 100), taken...); err != nil {
		t.Fatal(err)
	}
	events, err := b.history.Recent(t.Context(), "", 1000)
	if err != nil || len(events) != len(taken) {
		t.Fatalf("%d events, %v; want %d", len(events), err, len(taken))
	}
	e := events[0]
	if e.Kind != lockevents.Forced || e.Key != "user:42" || e.Mode != "fair" || e.Token != 7 || e.Label != "order-1" || e.Held < time.Minute || e.Process == "" ||
		e.Behind != (lockevents.Behind{Process: "web-1:7:abc", Label: "order-1", Token: 7}) {
		t.Errorf("%+v", e)
	}
	if !strings.HasPrefix(e.By, "aliceüü") || len(e.By) > 128 || strings.Contains(e.By, "\ufffd") {
		t.Errorf("by %q", e.By)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.ForceUnlocked(over, "bob", taken...); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}
