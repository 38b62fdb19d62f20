package browser_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/lockmw/go/internal/test/integration/browser"
	"github.com/lockmw/go/internal/test/leak"
)

func TestMain(m *testing.M) {
	leak.VerifyMain(func() int {
		defer func() { stopChromium() }()
		return m.Run()
	})
}

var stopChromium = func() {}

// chromium is one browser for all tests.
var chromium = sync.OnceValues(func() (context.Context, error) {
	ctx, stop, err := browser.Start(context.Background())
	if err == nil {
		stopChromium = stop
	}
	return ctx, err
})

// newTab opens a tab that is closed when the test ends. The test is skipped if no browser is installed.
func newTab(t *testing.T) context.Context {
	t.Helper()
	b, err := chromium()
	switch {
	case errors.Is(err, browser.ErrNotInstalled) && os.Getenv("LOCKMW_REQUIRE_BROWSER") != "1":
		t.Skip(err)
	case err != nil:
		t.Fatalf("a browser is required: %v", err)
	}
	tab, cancel := chromedp.NewContext(b)
	t.Cleanup(cancel)
	if err := chromedp.Do(tab); err != nil { // without a limit, which would also end the tab
		t.Fatal(err)
	}
	return tab
}
