package freeport_test

import (
	"net/netip"
	"testing"

	"github.com/lockmw/go/internal/test/freeport"
)

// Otherwise a client on the machine may get the port of a server that is down, and the restart fails.
func TestAFreePortIsNotGivenToConnections(t *testing.T) {
	for range 100 {
		addr, err := freeport.Addr(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if port := netip.MustParseAddrPort(addr).Port(); port < 1024 || port >= 32768 {
			t.Fatalf("got port %d", port)
		}
	}
}
