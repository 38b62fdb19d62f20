package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// servedAt has the addresses of one `lockmw serve`.
type servedAt struct{ URL, Health string }

// serves runs `lockmw serve` until the test ends, and returns its addresses.
func serves(t *testing.T, s *redistest.Server, args ...string) (told servedAt) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, ended := start(t, ctx, append([]string{"serve", "--redis", s.Addr(), "--json"}, args...)...)
	t.Cleanup(func() {
		cancel()
		if status := <-ended; status != statusDone {
			t.Errorf("the exit status is %d", status)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &told); err != nil {
		t.Fatal(err)
	}
	return told
}

// fetch gets a page as a browser that reaches it by the name host.
func fetch(t *testing.T, url, host string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestServeServesThePage(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:42")
	where := serves(t, s, "localhost:0").URL
	if status, body := fetch(t, where, ""); status != http.StatusOK || !strings.Contains(body, "user:42") {
		t.Errorf("%d: %s", status, body)
	}
	if _, body := fetch(t, where+"key?key=user:42", ""); strings.Contains(body, "force-unlock") {
		t.Error("everyone may release locks")
	}
}

// An attacker's host name may resolve to this address (DNS rebinding). The browser of a visitor then sends that name.
func TestServeAnswersToItsOwnNamesOnly(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:42")
	for _, args := range [][]string{
		{"localhost:0", "--force-unlock", "--host", "Locks.Internal,other.internal"}, {"0.0.0.0:0", "--force-unlock", "--host", "locks.internal", "--host", "other.internal"},
	} {
		where := serves(t, s, args...).URL
		for _, host := range []string{
			"127.0.0.1", "[::1]:8080", "[::1]", "localhost", "LOCALHOST:8080", "localhost.", "192.0.2.1", "192.0.2.1:8080", "[2001:db8::1]:8080",
			"locks.internal", "LOCKS.internal:8080", "other.internal",
		} {
			if status, _ := fetch(t, where, host); status != http.StatusOK {
				t.Errorf("%s: as %s: %d", args[0], host, status)
			}
		}
		for _, host := range []string{
			"evil.example", "evil.example:8080", "localhost.evil.example", "locks.internal.evil.example", "evil.locks.internal", "127.0.0.1.evil.example", "127.1", "0x7f000001", "2130706433",
			"[::1].evil.example", ":8080", "locks.internal,evil.example", "évil.example",
		} {
			for _, path := range []string{"", "key?key=user:42", "locks.json", "style.css", "nothing"} {
				status, body := fetch(t, where+path, host)
				if status != http.StatusForbidden || strings.Contains(body, "user:42") || strings.Contains(body, "force-unlock") || !strings.Contains(body, "--host") {
					t.Errorf("%s: %s as %s: %d %s", args[0], path, host, status, body)
				}
			}
		}
	}
	for _, name := range []string{"http://locks.internal", "locks.internal:8080", "a b", "", "*"} {
		lockmwOn(t, s, "serve", "localhost:0", "--host", name).want(t, statusUsage, "--host")
	}
}

func TestServeMayLetLocksBeReleased(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:42")
	where := serves(t, s, "localhost:0", "--force-unlock", "--trace-url", "https://jaeger.example.com/trace/{trace_id}").URL
	if _, body := fetch(t, where+"key?key=user:42", ""); !strings.Contains(body, "force-unlock") {
		t.Errorf("the page has no button to release the lock:\n%s", body)
	}
}

func TestServeWarnsWhereOthersReachIt(t *testing.T) {
	var c command
	var out, err strings.Builder
	c.io, c.out = console{err: &err}, bufio.NewWriter(&out)
	s := &serving{command: &c, forceUnlock: true}
	if err := s.tellWhere("http://localhost:8080/", "", true); err != nil {
		t.Error(err)
	}
	if out.String() != "http://localhost:8080/\n" || err.Len() > 0 {
		t.Errorf("for this machine: %q, %q", out.String(), err.String())
	}
	if err := s.tellWhere("http://localhost:8080/", "", false); err != nil {
		t.Error(err)
	}
	if !strings.Contains(err.String(), "no authentication") || !strings.Contains(err.String(), "may release") {
		t.Errorf("for all: %q", err.String())
	}
	out.Reset()
	err.Reset()
	c.json = true
	if err := s.tellWhere("http://localhost:8080/", "", false); err != nil {
		t.Error(err)
	}
	if out.String() != `{"url":"http://localhost:8080/"}`+"\n" || !strings.Contains(err.String(), "no authentication") || !strings.Contains(err.String(), "may release") {
		t.Errorf("in JSON: %q, %q", out.String(), err.String())
	}
}

func TestAddressesOfThisMachineAreKnown(t *testing.T) {
	for addr, want := range map[string]struct {
		own   bool
		shown string
	}{
		"127.0.0.1:80": {true, "localhost:80"}, "[::1]:80": {true, "localhost:80"}, "[::]:80": {false, "localhost:80"},
		"0.0.0.0:80": {false, "localhost:80"}, "192.0.2.1:80": {false, "192.0.2.1:80"},
	} {
		at := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))
		if own, shown := isOwn(at), shownURL(at); own != want.own || shown != "http://"+want.shown+"/" {
			t.Errorf("%s: own %v, shown as %s", addr, own, shown)
		}
	}
}

func TestServeRefusesWhatItCannotServe(t *testing.T) {
	s := redistest.Mini(t)
	lockmwOn(t, s, "serve", "nowhere").want(t, statusUsage, "nowhere")
	lockmwOn(t, s, "serve", "--trace-url", "javascript:{trace_id}").want(t, statusUsage, "--trace-url")
	lockmwOn(t, s, "serve", "a", "b").want(t, statusUsage)
}

func TestHealthChecksHaveAnAddressOfTheirOwn(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:42")
	told := serves(t, s, "localhost:0", "--health", "localhost:0")
	for _, path := range []string{"livez", "readyz"} {
		if status, body := fetch(t, told.Health+path, "10.0.0.7:8081"); status != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	for _, path := range []string{"", "locks.json", "key?key=user:42"} {
		if status, body := fetch(t, told.Health+path, ""); status != http.StatusNotFound || strings.Contains(body, "user:42") {
			t.Errorf("the address of health checks answers %q with %d %s", path, status, body)
		}
	}
}

func TestReadyzFailsWhileRedisDoesNotAnswer(t *testing.T) {
	s := redistest.Redis(t)
	told := serves(t, s, "localhost:0", "--health", "localhost:0", "--timeout", "1s")
	s.Kill()
	if status, body := fetch(t, told.Health+"readyz", ""); status != http.StatusServiceUnavailable || strings.Contains(body, s.Addr()) {
		t.Errorf("without Redis: %d %s", status, body)
	}
	if status, _ := fetch(t, told.Health+"livez", ""); status != http.StatusOK {
		t.Errorf("the process does not live: %d", status)
	}
	s.Restart(t)
	usertest.Eventually(t, "it is ready with Redis again", time.Minute, func() bool {
		status, _ := fetch(t, told.Health+"readyz", "")
		return status == http.StatusOK
	})
}

func TestServeRefusesAnAddressOfHealthChecks(t *testing.T) {
	lockmwOn(t, redistest.Mini(t), "serve", "localhost:0", "--health", "nowhere").want(t, statusUsage, "nowhere")
}
