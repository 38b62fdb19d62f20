package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/usertest"
)

var metricsURL = regexp.MustCompile(`metrics at (http://[0-9.:]+/metrics)`)

func checkPage(t *testing.T, page string, more ...string) {
	t.Helper()
	for _, want := range append(more,
		`distributed_lock_wait_duration_seconds_bucket{distributed_lock_mode="exclusive",distributed_lock_name="item",`,
		`distributed_lock_hold_duration_seconds_count{`,
		`distributed_lock_held{distributed_lock_mode="exclusive",distributed_lock_name="item"} `,
		`http_server_request_duration_seconds_count{`,
		`,service_name="orders"} 1`, // of target_info
	) {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	checkNoKeys(t, page)
}

// A scraper is a standard error that reads the metrics at each progress line of the sale with locks.
type scraper struct {
	usertest.Output
	t    *testing.T
	page string
}

func (s *scraper) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "with locks:") {
		_, s.page = request(s.t, http.MethodGet, metricsURL.FindStringSubmatch(s.String())[1], "")
	}
	return s.Output.Write(p)
}

func TestMetricsAreServedWhileTheShopIsOpen(t *testing.T) {
	t.Parallel()
	shop := serveShop(t, "-metrics", "127.0.0.1:0")
	found := metricsURL.FindStringSubmatch(shop.stderr.String())
	if found == nil {
		t.Fatalf("stderr is %q, want the page's address", shop.stderr)
	}
	if status, body := request(t, http.MethodPost, shop.url+"/users/ann/orders", `{"item":"item-1"}`); status != http.StatusCreated {
		t.Fatalf("%d: %s", status, body)
	}
	status, page := request(t, http.MethodGet, found[1], "")
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, page)
	}
	checkPage(t, page)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, found[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text") // as Prometheus sends it, to get exemplars
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	checkNoKeys(t, string(text))
	if !strings.Contains(string(text), `# {trace_id="`) {
		t.Errorf("no exemplars:\n%s", text)
	}

	shop.interrupt(t)
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
		t.Error("the page outlives the shop")
	}
}
