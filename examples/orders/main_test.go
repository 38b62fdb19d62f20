package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
)

// TestMain checks that no goroutines and no temporary folders remain.
func TestMain(m *testing.M) {
	suite.BeginBusy()
	leak.VerifyMain(leak.Files(m.Run))
}

const nobody = "127.0.0.1:1" // nothing listens at this address

// smallSale is small enough for an embedded Redis on a busy machine under the race detector.
var smallSale = []string{"-users", "50", "-clicks", "3", "-items", "2", "-stock", "10", "-rush", "1ms", "-json"}

const (
	smallSaleClicks = 150
	smallSaleEarly  = 100 // the last of a user's three clicks comes later
)

// meeting returns the conditions of a small sale in which, without locks, all early clicks reach the bank before any has paid. So the sale
// shows the faults of missing locks on a machine of any speed.
func meeting(locked bool) conditions {
	c := usual(locked)
	c.turn = time.Minute // 25 clicks wait for each item
	if locked {
		return c
	}
	var arrived atomic.Int64
	all := make(chan struct{})
	c.bank = func(ctx context.Context) error {
		if arrived.Add(1) == smallSaleEarly {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c
}

// runSale runs a small sale and returns the figures of its last line.
func runSale(t *testing.T, stderr io.Writer, args ...string) (unlocked, locked map[string]float64) {
	t.Helper()
	var stdout bytes.Buffer
	if code := runUnder(t.Context(), meeting, args, &stdout, stderr); code != exitOK {
		t.Fatalf("exit status %d\n%s%s", code, &stdout, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	var sales map[string]map[string]float64
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sales); err != nil {
		t.Fatalf("the last line is not the figures: %v\n%s", err, &stdout)
	}
	if len(sales) != 2 {
		t.Fatalf("figures of %d sales, want 2: %v", len(sales), sales)
	}
	return sales["unlocked"], sales["locked"]
}

// checkSale checks the figures of the small sale, which hold on any Redis. That the two deliveries of some parcel overlap is
// certain only on an otherwise idle machine, so tests that call it are not parallel.
func checkSale(t *testing.T, unlocked, locked map[string]float64) {
	t.Helper()
	checkLocked(t, locked)
	for name, n := range map[string]float64{
		"requests": smallSaleClicks, "accepted": smallSaleEarly, "refused": 50, "oversold": 80, "duplicate_orders": 50,
		"same_order": 0, "same_order_later": 0,
	} {
		if unlocked[name] != n {
			t.Errorf("without locks, %s is %v, want %v", name, unlocked[name], n)
		}
	}
	if unlocked["shipped_twice"] == 0 {
		t.Error("without locks, no order was shipped twice: the sale would not detect broken locks")
	}
	if unlocked["wait_p99_ms"] != 0 || locked["wait_p99_ms"] <= 0 {
		t.Errorf("waits are %v ms without locks and %v ms with them", unlocked["wait_p99_ms"], locked["wait_p99_ms"])
	}
}

// checkLocked checks that each of the 20 buyers got the same order for all three clicks, of which one came after the answers.
func checkLocked(t *testing.T, locked map[string]float64) {
	t.Helper()
	want := map[string]float64{
		"requests": smallSaleClicks, "accepted": 20, "same_order": 40, "same_order_later": 20, "refused": 90, "oversold": 0, "duplicate_orders": 0,
		"lost_orders": 0, "lost_locks": 0, "shipped": 20, "shipped_twice": 0,
	}
	for name, n := range want {
		if locked[name] != n {
			t.Errorf("with locks, %s is %v, want %v", name, locked[name], n)
		}
	}
}

func TestSaleKeepsItsPromisesWithLocksOnly(t *testing.T) {
	unlocked, locked := runSale(t, new(bytes.Buffer), smallSale...)
	checkSale(t, unlocked, locked)

	fields := strings.Fields("accepted duplicate_orders lost_locks lost_orders oversold per_second refused requests " +
		"same_order same_order_later shipped shipped_twice wait_p50_ms wait_p99_ms")
	for _, sale := range []map[string]float64{unlocked, locked} {
		var got []string
		for name := range sale {
			got = append(got, name)
		}
		slices.Sort(got)
		if !slices.Equal(got, fields) {
			t.Errorf("fields are %v, want %v", got, fields)
		}
	}
}

func TestInvalidSettingsAreReportedInOneLine(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()

	for _, c := range []struct {
		args string
		says string
	}{
		{"-user 5", "-user"},
		{"-users five", "five"},
		{"-users 0", "-users is 0"},
		{"-clicks -1", "-clicks is -1"},
		{"-items 99999999", "-items is 99999999"},
		{"-stock 0", "-stock is 0"},
		{"-seed -1", "-1"},
		{"-redis localhost", `-redis is "localhost"`},
		{"-redis :6379", `-redis is ":6379"`},
		{"-redis localhost:99999", `-redis is "localhost:99999"`},
		{"-redis localhost:1,localhost", `-redis is "localhost:1,localhost"`},
		{"-redis localhost:1,,localhost:2", `-redis is "localhost:1,,localhost:2"`},
		{"-redis localhost:1, localhost:2", "localhost:2"},
		{"-sentinel-master mymaster", "-redis"},
		{"-rush -1s", "-rush is -1s"},
		{"-rush 5", "5"},
		{"-serve :0 -rush 5s", "-rush"},
		{"-otlp localhost:0", `-otlp is "localhost:0"`},
		{"-serve 8080", `-serve is "8080"`},
		{"-metrics 9090", `-metrics is "9090"`},
		{"-serve :0 -json", "-json"},
		{"-serve :0 -users 5", "-users"},
		{"-clicks 2 -serve :0", "-clicks"},
		{"-serve :0 -seed 7", "-seed"},
		{"-contend -json", "-json"},
		{"-contend -serve :0", "-contend"},
		{"-contend -users 3", "-users"},
		{"-otlp no/such:4317", `-otlp is "no/such:4317"`},
		{"now", `"now"`},
		{"-serve " + taken.Addr().String(), "address already in use"},
		{"-metrics " + taken.Addr().String(), "-metrics: listen tcp " + taken.Addr().String() + ": bind: address already in use"},
		{"-otlp localhost:4317 -metrics " + taken.Addr().String(), "address already in use"},
		{"-redis " + nobody, "no redis at " + nobody},
		{"-redis " + nobody + "," + nobody, "no redis cluster at " + nobody + ", " + nobody},
		{"-sentinel-master mymaster -redis " + nobody, `no Sentinel with master "mymaster" at ` + nobody},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr); code != exitUsage {
				t.Errorf("exit status %d, want %d", code, exitUsage)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout: %q", &stdout)
			}
			line := stderr.String()
			if strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "orders: ") || !strings.Contains(line, c.says) {
				t.Errorf("stderr is %q, want one line about %q", line, c.says)
			}
		})
	}
}

func TestServersThatDoNotMatchTheFlags(t *testing.T) {
	t.Parallel()
	addr := redistest.Redis(t).Addr()
	for args, says := range map[string]string{
		"-redis " + addr + "," + addr:              "no redis cluster at " + addr + ", " + addr + ": ERR This instance has cluster support disabled",
		"-sentinel-master mymaster -redis " + addr: `no Sentinel with master "mymaster" at ` + addr + ": ",
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(args), &stdout, &stderr)
		if line := stderr.String(); code != exitUsage || strings.Count(line, "\n") != 1 || !strings.Contains(line, says) {
			t.Errorf("%s: exit status %d, stderr is %q, want one line about %q", args, code, line, says)
		}
	}
}

// An openShop is a run with -serve.
type openShop struct {
	url    string
	stderr *usertest.Output
	stop   context.CancelFunc
	exit   chan int
}

func serveShop(t *testing.T, args ...string) *openShop {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	shop := &openShop{stderr: &usertest.Output{}, stop: stop, exit: make(chan int, 1)}
	out, stdout := io.Pipe()
	go func() {
		code := run(ctx, append([]string{"-serve", "127.0.0.1:0", "-stock", "1"}, args...), stdout, shop.stderr)
		_ = stdout.Close()
		shop.exit <- code
	}()
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, shop.stderr)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	shop.url = regexp.MustCompile(`http://[0-9.:]+`).FindString(first)
	return shop
}

func (s *openShop) interrupt(t *testing.T) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	s.stop()
	if code := <-s.exit; code != exitOK {
		t.Errorf("exit status %d, want %d", code, exitOK)
	}
}

func TestServeUntilInterrupted(t *testing.T) {
	t.Parallel()
	shop := serveShop(t)
	for _, c := range []struct {
		user, body string
		want       int
	}{
		{"ann", `{"item":"item-1"}`, http.StatusCreated},
		{"ann", `{"item":"item-2"}`, http.StatusConflict},
		{"%61nn", `{"item":"item-2"}`, http.StatusConflict}, // ann, spelled otherwise
		{"bob", `{"item":"item-1"}`, http.StatusConflict},
		{"bob", `{"item":"item-0"}`, http.StatusNotFound},
		{"bob", `{}`, http.StatusBadRequest},
		{"bob", `item-2`, http.StatusBadRequest},
	} {
		if status, body := request(t, http.MethodPost, shop.url+"/users/"+c.user+"/orders", c.body); status != c.want {
			t.Errorf("%s orders %s: %d, want %d: %s", c.user, c.body, status, c.want, body)
		}
	}
	for range 2 {
		const intent, item = "c-1", `{"item":"item-3"}`
		if status, body := requestWith(t, http.MethodPost, shop.url+"/users/cat/orders", item, intent); status != http.StatusCreated || body != "{\"order\":2}\n" {
			t.Errorf("a click of cat: %d %s", status, body)
		}
	}
	const shipped = `{"item":"item-1","stock":0,"orders":1,"shipped":1}`
	patience := time.After(2 * time.Minute)
	for body := ""; !strings.Contains(body, shipped); {
		select {
		case <-time.After(20 * time.Millisecond):
			_, body = request(t, http.MethodGet, shop.url+"/items", "")
		case <-patience:
			t.Fatalf("not shipped: %s", body)
		}
	}
	shop.interrupt(t)
}

func request(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	return requestWith(t, method, url, body, "")
}

// requestWith sends a request with an Idempotency-Key, unless that is empty.
func requestWith(t *testing.T, method, url, body, key string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// An interrupter is a standard error that interrupts the program at its first write.
type interrupter struct {
	bytes.Buffer
	interrupt func()
}

func (w *interrupter) Write(p []byte) (int, error) {
	w.interrupt()
	return w.Buffer.Write(p)
}

func TestInterruptedSaleLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	stderr := &interrupter{interrupt: interrupt}
	var stdout bytes.Buffer
	if code := run(ctx, []string{"-users", "10000"}, &stdout, stderr); code != exitInterrupted {
		t.Errorf("exit status %d, want %d\n%s%s", code, exitInterrupted, &stdout, stderr)
	}
	if !strings.HasSuffix(stderr.String(), "orders: interrupted\n") {
		t.Errorf("stderr is %q", stderr)
	}
}

func TestNoKeysRemainInARealRedis(t *testing.T) {
	server := redistest.Redis(t)
	rdb := server.NewClient(t)
	if err := rdb.Set(t.Context(), "somebody:else", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	unlocked, locked := runSale(t, new(bytes.Buffer), append(smallSale, "-redis", server.Addr())...)
	checkSale(t, unlocked, locked)
	keys, err := rdb.Keys(t.Context(), "*").Result()
	if err != nil || !slices.Equal(keys, []string{"somebody:else"}) {
		t.Errorf("keys after the sale: %v, %v", keys, err)
	}
}
