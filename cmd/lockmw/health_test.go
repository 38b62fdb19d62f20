package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
)

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
	if status, body := fetch(t, told.Health+"readyz", ""); status != http.StatusOK {
		t.Errorf("with Redis again: %d %s", status, body)
	}
}

func TestServeRefusesAnAddressOfHealthChecks(t *testing.T) {
	lockmwOn(t, redistest.Mini(t), "serve", "localhost:0", "--health", "nowhere").want(t, statusUsage, "nowhere")
}
