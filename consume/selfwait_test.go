package consume_test

import (
	"context"
	"testing"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Two partitions may have messages with one key.
func TestAWaitForAnotherPartitionIsNotReportedAsASelfWait(t *testing.T) {
	usertest.NoSelfWait(t, func(t *testing.T, c *lockmw.Client, work func()) {
		done := make(chan struct{})
		p := consume.New(c, itself, func(context.Context, string) error {
			work()
			return nil
		}, nil).Open(func(string) { close(done) })
		submit(t, p, "a1")
		<-done
		p.Close(now())
	})
}
