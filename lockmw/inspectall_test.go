package lockmw_test

import (
	"errors"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

func TestAScanTakesItsOptions(t *testing.T) {
	rdb := redistest.Mini(t).NewClient(t)
	locks, err := lockmw.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if _, _, err := locks.Lock(t.Context(), "user:42"); err != nil {
		t.Fatal(err)
	}
	inspector, err := lockmw.NewInspector(rdb)
	if err != nil {
		t.Fatal(err)
	}
	var told lockmw.ScanProgress
	found := 0
	for s, err := range inspector.All(t.Context(), lockmw.WithShare(1), lockmw.WithScanProgress(func(p lockmw.ScanProgress) { told = p })) {
		if err != nil || s.Key != "user:42" {
			t.Errorf("it finds %+v, %v", s, err)
		}
		found++
	}
	if found != 1 || told != (lockmw.ScanProgress{Locks: 1, Part: 1}) {
		t.Errorf("it finds %d locks, and tells %+v", found, told)
	}
	for what, o := range map[string]lockmw.ScanOption{
		"no share": lockmw.WithShare(0), "more than all": lockmw.WithShare(1.1), "nobody to tell": lockmw.WithScanProgress(nil), "nil": nil,
	} {
		for s, err := range inspector.All(t.Context(), o) {
			if s.Key != "" || !errors.Is(err, lockmw.ErrInvalidOption) {
				t.Errorf("%s: it yields %+v, %v", what, s, err)
			}
		}
	}
}
