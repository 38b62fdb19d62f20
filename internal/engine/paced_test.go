package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// pipelineSizes is a hook of go-redis that records how many commands go out together.
type pipelineSizes struct {
	mu    sync.Mutex
	sizes []int
}

func (p *pipelineSizes) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelineSizes) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *pipelineSizes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.mu.Lock()
		p.sizes = append(p.sizes, len(cmds))
		p.mu.Unlock()
		return next(ctx, cmds)
	}
}

func (p *pipelineSizes) get() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sizes)
}

// Renewals that are due together are no burst, which would delay the commands of others. None of them is late for that.
func TestRenewalsThatAreDueTogetherAreSpread(t *testing.T) {
	const n, lease = 600, 2 * time.Second
	inBubble(t, func(b *bubble) {
		b.warm()
		var holds []*hold
		for i := range n {
			a := newRequester(fmt.Sprintf("item:%d", i))
			a.Lease = lease
			holds = append(holds, a.acquire(b.T, b.e))
		}
		sizes := new(pipelineSizes)
		b.e.rdb.(*redis.Client).AddHook(sizes)
		time.Sleep(5 * lease / 4)
		renewed := 0
		for _, size := range sizes.get() {
			if renewed += size; size > 512 {
				b.Errorf("a pipeline of %d commands", size)
			}
		}
		if renewed < 3*n {
			b.Errorf("%d renewals of %d holds in %v", renewed, n, 5*lease/4)
		}
		for _, h := range holds {
			if left := time.Until(h.Deadline().Time()); left < lease/2 {
				b.Fatalf("a hold has %v left", left)
			}
		}
		if err := b.e.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
	})
}
