package process_test

import (
	"net/netip"
	"testing"

	"github.com/lockmw/go/internal/test/process"
)

// Else a client somewhere on the machine may get the port of a server that is down, and a restart fails.
func TestAFreePortIsNoneThatConnectionsGet(t *testing.T) {
	for range 100 {
		addr, err := process.FreeAddr(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if port := netip.MustParseAddrPort(addr).Port(); port < 1024 || port >= 32768 {
			t.Fatalf("got port %d", port)
		}
	}
}
