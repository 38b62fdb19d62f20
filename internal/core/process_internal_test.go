package core

import (
	"os"
	"strconv"
	"testing"
)

func TestTheNameOfAProcessFitsIntoAKey(t *testing.T) {
	for host, want := range map[string]string{
		"web-1": "web-1", "": "unknown", "my host": "my_host", "a:b": "a_b", "{a}": "_a_", "büro": "b_ro", "a\n\xff": "a__",
	} {
		if got, want := processName(host), want+":"+strconv.Itoa(os.Getpid()); got != want {
			t.Errorf("host %q: %q, want %q", host, got, want)
		}
	}
}
