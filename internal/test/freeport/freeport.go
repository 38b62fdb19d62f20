// Package freeport finds ports for servers.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Addr returns an address of this machine that is not in use. Its port is below the range that systems give to connections
// (32768 and up on Linux), and no other process gets it from Addr, nor does this one again soon. So a server that is down for a
// while finds its port free again, and its clients reach no other program. Another program may still take the port first.
func Addr(ctx context.Context) (string, error) { return own.addr(ctx) }

const (
	lowest, end = 10_000, 32_768
	blockSize   = 64
	maxBlocks   = 16 // of a process
)

// own are the ports of this process.
var own ports

// ports hands out the ports of the blocks that a process has claimed, one after the other, again and again: a process that starts
// many servers leaves blocks to others.
type ports struct {
	mu     sync.Mutex
	claims []net.Listener // on the first port of each block, until the process ends: a listener that is garbage would be closed
	all    []int          // the others
	next   int            // index in all
}

func (p *ports) addr(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for range maxBlocks * blockSize {
		if p.next == len(p.all) {
			if err := p.more(ctx); err != nil {
				return "", err
			}
		}
		port := p.all[p.next]
		p.next++
		var listener net.Listener
		if listener, err = listen(ctx, port); err == nil {
			return listener.Addr().String(), listener.Close()
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}

// more claims another block, or begins anew with the first one.
func (p *ports) more(ctx context.Context) error {
	if len(p.claims) == maxBlocks {
		p.next = 0
		return nil
	}
	var err error
	for _, block := range rand.Perm((end - lowest) / blockSize) {
		if err = p.claim(ctx, lowest+block*blockSize); err == nil {
			return nil
		}
	}
	return fmt.Errorf("no free block of ports from %d to %d: %w", lowest, end-1, err)
}

// claim claims the block with this first port, unless another process has it.
func (p *ports) claim(ctx context.Context, first int) error {
	claim, err := listen(ctx, first)
	if err != nil {
		return err
	}
	p.claims = append(p.claims, claim)
	for port := first + 1; port < first+blockSize; port++ {
		p.all = append(p.all, port)
	}
	return nil
}

func listen(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
