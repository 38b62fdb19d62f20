package transport_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
)

// echoes runs two calls in a pipeline, and returns what is wrong with the answers.
func echoes(ctx context.Context, s *transport.Sender) (err error) {
	echo := transport.NewScript("return KEYS[1]")
	var batch []*transport.Call
	for _, key := range []string{"a", "b"} {
		k := transport.NewCall(ctx, echo, 1, func(r *transport.Reply) {
			if r.Err != nil {
				err = r.Err
			}
		})
		k.AddKeys(key)
		batch = append(batch, k)
	}
	s.RunBatch(ctx, batch)
	return err
}

func TestPipelinesRunOnTheConnectionsOfSingleCommands(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		for name, tt := range map[string]struct {
			edit func(*redis.Options)
			want int
		}{
			"one pool":          {func(*redis.Options) {}, 1},
			"a size is chosen":  {func(o *redis.Options) { o.PipelinePoolSize = 2 }, 2},
			"no pool of theirs": {func(o *redis.Options) { o.PipelinePoolSize = -1 }, 1},
		} {
			t.Run(name, func(t *testing.T) {
				wire := s.NewWire()
				rdb := s.NewClient(t, wire.Use, tt.edit)
				if err := rdb.Ping(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				sender := transport.NewSender(rdb, transport.Topology{Single: true}, time.Second, transport.Replicas{})
				defer sender.Stop()
				if err := echoes(t.Context(), sender); err != nil {
					t.Error(err)
				}
				if n := wire.Conns(); n != tt.want {
					t.Errorf("%d connections, want %d", n, tt.want)
				}
			})
		}
	})
}

func TestAPipelineIsRepeatedIfItsConnectionFails(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		sender := transport.NewSender(s.NewClient(t, wire.Use), transport.Topology{Single: true}, time.Second, transport.Replicas{})
		defer sender.Stop()
		lost := wire.LoseReply("evalsha")
		if err := echoes(t.Context(), sender); err != nil {
			t.Error(err)
		}
		<-lost.Caught()
	})
}
