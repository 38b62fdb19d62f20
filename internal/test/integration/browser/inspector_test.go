package browser_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/inspector"
	"github.com/lockmw/go/internal/test/integration/browser"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// patience bounds waits on a busy machine.
const patience = 2 * time.Minute

// A desk is a browser with the page.
type desk struct {
	*testing.T
	server *redistest.Server
	url    string
	tab    context.Context
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	return newDeskOn(t, redistest.Mini(t))
}

func newDeskOn(t *testing.T, s *redistest.Server) *desk {
	t.Helper()
	tab := newTab(t)
	insp, err := lockmw.NewInspector(s.NewClient(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }))
	if err != nil {
		t.Fatal(err)
	}
	page := inspector.Handler(insp, inspector.WithForceUnlock(func(*http.Request) bool { return true }),
		inspector.WithLogger(slog.New(slog.DiscardHandler)))
	site := httptest.NewServer(http.StripPrefix("/ops/locks", page))
	t.Cleanup(func() {
		site.CloseClientConnections()
		site.Close()
	})
	return &desk{t, s, site.URL + "/ops/locks", tab}
}

func (d *desk) client() *lockmw.Client { return usertest.Client(d.T, d.server) }

// do performs actions in the tab.
func (d *desk) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.tab, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		d.Fatalf("%s: %v\n%s", what, err, d.text())
	}
}

// text returns the text of the page.
func (d *desk) text() string {
	ctx, cancel := context.WithTimeout(d.tab, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

func (d *desk) open(path string) {
	d.Helper()
	d.do("opening "+path, chromedp.Navigate(d.url+path))
}

// see waits until the page has an element that the selector matches.
func (d *desk) see(selector string) {
	d.Helper()
	d.do("looking for "+selector, chromedp.WaitVisible(chromedp.CSS(selector)))
}

// miss waits until the page has no such element.
func (d *desk) miss(selector string) {
	d.Helper()
	d.do("waiting for the end of "+selector, chromedp.WaitNotPresent(chromedp.CSS(selector)))
}

// click waits for an element that a pointer can reach, and clicks on it. Both are one step, because the page may replace the
// element in between.
func (d *desk) click(selector string) {
	d.Helper()
	d.await(fmt.Sprintf(`(() => {
		const found = document.querySelector(%q)
		if (!found) return false
		found.scrollIntoView({block: "center", behavior: "instant"})
		const {left, top} = found.getClientRects()[0] ?? {}
		const hit = left === undefined ? null : document.elementFromPoint(left + 2, top + 2)
		if (!hit || !found.contains(hit)) return false
		hit.click()
		return true
	})()`, selector))
}

// await waits until an expression is true. While the browser loads another page, it cannot be evaluated.
func (d *desk) await(expression string) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.tab, patience)
	defer cancel()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if is && err == nil {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			d.Fatalf("%s: %v\n%s", expression, err, d.text())
		}
	}
}

// contend makes a call wait for key until the returned function is called.
func (d *desk) contend(key string) (end func()) {
	d.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	contended, waits := usertest.OnContended(d)
	locks := d.client()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, hold, err := locks.Lock(ctx, key, contended, lockmw.WithLabel("req-2")); err == nil {
			<-ctx.Done()
			_ = hold.Unlock()
		}
	}()
	waits()
	end = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	d.Cleanup(end)
	return end
}

// Package inspector tests how soon this happens, in a bubble.
func TestContentionAppearsAndDisappears(t *testing.T) {
	d := newDesk(t)
	d.open("")
	d.see(".empty")
	d.see(".pulse.on")
	release := usertest.Occupy(t, d.client(), "user:42")
	d.see("tr.held")
	began := time.Now()
	end := d.contend("user:42")
	d.see("tr.contended")
	t.Logf("shown as contended after %v", time.Since(began))
	d.click("tr.contended a")
	d.see(".queue")
	d.see(".pulse.on")
	began = time.Now()
	end()
	d.miss(".queue")
	t.Logf("shown without waiters after %v", time.Since(began))
	release()
	d.see(".empty")
	d.click(".brand")
	d.see(".empty")
}

func TestALockIsTakenAwayByClicking(t *testing.T) {
	d := newDesk(t)
	_, hold := usertest.Lock(t, t.Context(), d.client(), "user:42", lockmw.WithLabel("req-1"))
	d.contend("user:42")
	d.open("/key?key=user:42")
	d.see(".queue")
	d.click(".hold .danger")
	d.see("form button.danger")
	if text := d.text(); !strings.Contains(text, "req-1") || !strings.Contains(text, fmt.Sprint(hold.Token())) || !strings.Contains(text, "1 call waits") {
		t.Errorf("the confirmation page shows\n%s", text)
	}
	d.click("form button.danger")
	d.await(`document.body.innerText.includes("The lock was released by force")`)
	d.click(".button")
	d.await(`document.querySelector(".hold")?.innerText.includes("req-2")`) // the history names req-1
	if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("the holder's error is %v", err)
	}
}

func TestAHostileKeyRunsNothing(t *testing.T) {
	d := newDesk(t)
	const key = `<script>pwned = 1</script><img src=x onerror="pwned = 1">"'--></td></table><b class=injected>` + "\r\ndata: x\n\n"
	_, hold := usertest.Lock(t, t.Context(), d.client(), key)
	d.open("/")
	d.see(".pulse.on")
	d.see("tr.held")
	if text := d.text(); !strings.Contains(text, `<script>pwned = 1</script><img src=x onerror="pwned = 1">"'--></td></table><b class=injected>\r\ndata: x\n\n`) {
		t.Errorf("the page shows\n%s", text)
	}
	d.click("tr.held a")
	d.see("h1")
	d.see(".pulse.on")
	d.click(".hold .danger")
	d.see("form button.danger")
	d.await(`typeof pwned === "undefined" && !document.querySelector(".injected, img[src=x]")`)
	d.click("form button.danger")
	d.await(`document.body.innerText.includes("The lock was released by force")`)
	if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("the holder's error is %v", err)
	}
}

func TestTenThousandLocks(t *testing.T) {
	d := newDeskOn(t, redistest.Redis(t)) // the embedded server takes long to scan
	locks := d.client()
	var group sync.WaitGroup
	for part := range 20 {
		group.Go(func() {
			for i := range 500 {
				if _, _, err := locks.Lock(context.Background(), fmt.Sprintf("item:%05d", part*500+i), lockmw.WithFixedLease(time.Hour)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	d.open("/?sort=key")
	d.await(`document.querySelector("caption").innerText.startsWith("10000 locks")`)
	d.await(`document.querySelectorAll("tbody tr").length === 100`)
	d.click(".pager a[rel=next]")
	d.await(`document.querySelector("tbody a")?.innerText === "item:00100"`)
	d.await(`document.querySelector("input[type=search]").focus() ?? true`) // the page may replace the input in the meantime
	d.do("filtering", chromedp.KeyEvent("item:0777\n"))
	d.await(`document.querySelectorAll("tbody tr").length === 10 && document.querySelector("tbody a").innerText === "item:07770"`)
	d.click("tbody a")
	d.await(`document.querySelector("h1")?.innerText === "item:07770"`)
}

func TestARedisThatCannotBeReachedIsShown(t *testing.T) {
	d := newDesk(t)
	usertest.Occupy(t, d.client(), "user:42")
	d.open("/")
	d.see("tr.held")
	d.see(".pulse.on")
	d.await(`document.querySelector("table.locks").isMarked = true`)
	d.server.Mini.SetError("LOADING Redis is loading the dataset in memory")
	d.see(".notice.alarm")
	d.see("tr.held")                                          // the last known state
	d.await(`document.querySelector("table.locks").isMarked`) // the table was not replaced, so a click in progress is not lost
	d.server.Mini.SetError("")
	d.miss(".notice.alarm")
}

func TestAPageFitsIntoANarrowWindow(t *testing.T) {
	d := newDesk(t)
	usertest.Occupy(t, d.client(), "user:42")
	usertest.Occupy(t, d.client(), strings.Repeat("x", 1024))
	usertest.Occupy(t, d.client(), strings.Repeat("<\"'>:/ ", 100))
	d.contend("user:42")
	_, hold := usertest.Lock(t, t.Context(), d.client(), "export:"+strings.Repeat("pdf", 30), lockmw.WithFixedLease(59*time.Minute), lockmw.WithLabel("task-"+strings.Repeat("7", 60)))
	defer usertest.Unlock(t, hold)
	insp, err := lockmw.NewInspector(d.server.NewClient(t))
	if err != nil {
		t.Fatal(err)
	}
	status, err := insp.Get(t.Context(), hold.Key())
	if err != nil {
		t.Fatal(err)
	}
	process := status.Holders[0].Process
	for _, width := range []int64{320, 390, 640, 801} {
		d.do("making the window narrow", browser.Window{Width: width, Height: 600, Phone: true}.Set())
		for _, path := range []string{"/", "/key?key=user:42", "/key?key=" + strings.Repeat("x", 1024), "/process", "/process?process=" + process, "/redis"} {
			d.open(path)
			d.see("#live")
			ctx, cancel := context.WithTimeout(d.tab, patience)
			// window.innerWidth grows with wider elements.
			wide, err := chromedp.Run(ctx, chromedp.Evaluate[int64]("document.documentElement.scrollWidth"))
			cancel()
			if err != nil || wide > width {
				t.Errorf("%d wide, %.30s needs %d, %v", width, path, wide, err)
			}
		}
	}
}

func TestFocusStaysWhileThePageChanges(t *testing.T) {
	d := newDesk(t)
	usertest.Occupy(t, d.client(), "user:42")
	d.open("/")
	d.see(".pulse.on")
	d.do("focusing", chromedp.Focus(chromedp.CSS("tr.held a")))
	d.await(`(seen = document.activeElement) && seen.innerText === "user:42"`)
	usertest.Occupy(t, d.client(), "item:7")
	d.await(`document.querySelectorAll("tbody tr").length === 2`)
	d.contend("user:42")
	d.see("tr.contended")
	d.await(`document.activeElement === seen && seen.isConnected && !!seen.closest("tr.contended")`)
}

// Two permits that a process gets in the same microsecond have equal events.
func TestEqualEventsStayInTheHistory(t *testing.T) {
	d := newDesk(t)
	rdb := d.server.NewClient(t)
	record := func(lines string) {
		add := &redis.XAddArgs{Stream: "lockmw:events", Values: []any{"process", "web:1", "events", lines}}
		if err := rdb.XAdd(t.Context(), add).Err(); err != nil {
			t.Fatal(err)
		}
	}
	const event = `{"at_us":%d,"event":"acquired","key":"user:42"}` + "\n"
	record(strings.Repeat(fmt.Sprintf(event, 1), 2))
	d.open("/key?key=user:42")
	d.see(".pulse.on")
	for rows := 3; rows < 6; rows++ { // each new row comes with the old ones
		record(fmt.Sprintf(event, rows))
		d.await(fmt.Sprintf(`document.querySelectorAll("[data-id=history] tbody tr").length === %d`, rows))
	}
}

func TestWithoutScriptsAReloadShowsTheNewState(t *testing.T) {
	d := newDesk(t)
	d.do("switching scripts off", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	d.open("/")
	d.see(".empty")
	usertest.Occupy(t, d.client(), "user:42")
	usertest.Eventually(t, "the lock is shown", patience, func() bool {
		d.do("reloading", chromedp.Reload())
		return strings.Contains(d.text(), "user:42")
	})
}
