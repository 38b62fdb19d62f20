package freeport

import (
	"net"
	"testing"
)

// take returns n ports.
func take(t *testing.T, p *ports, n int) (all []string) {
	t.Helper()
	for range n {
		addr, err := p.addr(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, addr)
	}
	return all
}

// Otherwise the clients of a server that is down for a while could reach a server of another test or process.
func TestAPortIsHandedOutOnce(t *testing.T) {
	var p, other ports
	defer p.close()
	defer other.close()
	seen := make(map[string]bool)
	for _, addr := range take(t, &p, 3*blockSize) {
		if seen[addr] {
			t.Errorf("%s was handed out twice", addr)
		}
		seen[addr] = true
	}
	if err := other.claim(t.Context(), p.all[0]-1); err == nil {
		t.Error("two processes have claimed the same ports")
	}
}

// A process that starts thousands of servers, one after the other, leaves ports to others.
func TestAProcessTakesAFewBlocksOnly(t *testing.T) {
	var p ports
	defer p.close()
	first := take(t, &p, 1)[0]
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", first)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, addr := range take(t, &p, 2*maxBlocks*blockSize) {
		if addr == first {
			t.Error("a port in use was handed out")
		}
	}
	if n := len(p.claims); n != maxBlocks {
		t.Errorf("%d blocks are claimed", n)
	}
}

func (p *ports) close() {
	for _, claim := range p.claims {
		_ = claim.Close()
	}
}
