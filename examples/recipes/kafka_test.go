package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/examples/recipes/kafka"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// consumeKafka is what a service runs in each of its processes.
func consumeKafka(ctx context.Context, brokers []string, producer *kgo.Client, locks lockmw.Locker,
	ship func(context.Context, *kgo.Record) error,
) error {
	byOrder := func(_ context.Context, r *kgo.Record) (string, error) { return orderOf(r.Value) }
	deadLetter := func(ctx context.Context, r *kgo.Record, attempt int, err error) error {
		if attempt < 5 && errors.Is(err, errShipping) {
			return err // try again
		}
		return producer.ProduceSync(ctx, &kgo.Record{Topic: "dead", Value: r.Value}).FirstErr()
	}
	queue := consume.New(locks, byOrder, ship, deadLetter)
	return kafka.Run(ctx, queue, 10*time.Second,
		kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("shipping"), kgo.ConsumeTopics("orders"))
}

// startKafka starts a broker in memory, with a topic of 4 partitions.
func startKafka(t testing.TB) (brokers []string, producer *kgo.Client) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second), kfake.SeedTopics(4, "orders", "dead"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	producer, err = kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	return cluster.ListenAddrs(), producer
}

// produce spreads payloads over the partitions: the partitions have other keys than the locks.
func produce(t testing.TB, producer *kgo.Client, payloads ...string) {
	t.Helper()
	for i, p := range payloads {
		record := &kgo.Record{Topic: "orders", Partition: int32(i % 4), Value: []byte(p)}
		if err := producer.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func startKafkaMember(t *testing.T, brokers []string, producer *kgo.Client, locks lockmw.Locker, trip *trip) (stop func()) {
	return start(t, func(ctx context.Context) error {
		return consumeKafka(ctx, brokers, producer, locks, func(_ context.Context, r *kgo.Record) error {
			trip.handle(t, r.Value)
			return nil
		})
	})
}

// Members come and go while messages arrive. Each leaves in order, so nothing runs twice.
func TestMembersOfKafkaExcludeEachOtherByKeyDuringRebalances(t *testing.T) {
	t.Parallel()
	s, trip := redistest.Redis(t), newTrip()
	brokers, producer := startKafka(t)
	stop := startKafkaMember(t, brokers, producer, usertest.Client(t, s), trip)
	const n, orders = 400, 5
	send := func(from, to int) {
		for i := from; i < to; i++ {
			record := &kgo.Record{Topic: "orders", Partition: int32(i % 4), Value: []byte(payload(fmt.Sprint(i%orders), i))}
			if err := producer.ProduceSync(t.Context(), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	reach := func(n int) {
		usertest.Eventually(t, fmt.Sprint(n, " are handled"), time.Minute, func() bool { return trip.total() >= n })
	}
	send(0, 100)
	reach(50)
	startKafkaMember(t, brokers, producer, usertest.Client(t, s), trip)
	send(100, 200)
	reach(150)
	startKafkaMember(t, brokers, producer, usertest.Client(t, s), trip)
	send(200, 300)
	reach(250)
	stop()
	send(300, n)
	reach(n)
	for i := range orders {
		list := trip.of(fmt.Sprint(i))
		for p := range 4 { // the order of a key within a partition
			of := slices.DeleteFunc(slices.Clone(list), func(number int) bool { return number%4 != p })
			if !slices.IsSorted(of) {
				t.Errorf("partition %d handled %v", p, of)
			}
		}
		slices.Sort(list)
		if len(list) != n/orders || len(slices.Compact(list)) != n/orders {
			t.Errorf("order %d: handled %v", i, list)
		}
	}
}

func TestMessagesOfKafkaThatCannotBeHandledAreDeadLetters(t *testing.T) {
	t.Parallel()
	s, trip := redistest.Redis(t), newTrip()
	brokers, producer := startKafka(t)
	produce(t, producer, "{", payload("", 1), payload(strings.Repeat("x", 2048), 2), payload("7", 3))
	startKafkaMember(t, brokers, producer, usertest.Client(t, s), trip)
	usertest.Eventually(t, "the good one is handled", time.Minute, func() bool { return slices.Equal(trip.of("7"), []int{3}) })
	reader, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("dead"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for dead := 0; dead < 3; dead += reader.PollFetches(ctx).NumRecords() {
		if ctx.Err() != nil {
			t.Fatal("the dead letters are missing")
		}
	}
}

func TestMessagesOfKafkaWaitForTheRedisOfTheLocks(t *testing.T) {
	t.Parallel()
	s, trip := redistest.Redis(t), newTrip()
	brokers, producer := startKafka(t)
	startKafkaMember(t, brokers, producer, usertest.Client(t, s, lockmw.WithLogger(slog.New(slog.DiscardHandler))), trip)
	send := func(order string, number int) { produce(t, producer, payload(order, number)) } // all in partition 0
	send("7", 1)
	usertest.Eventually(t, "the first is handled", time.Minute, func() bool { return trip.total() == 1 })
	usertest.Eventually(t, "its lock is free", time.Minute, func() bool { return s.NewClient(t).Exists(t.Context(), "lockmw:{order:7}").Val() == 0 })
	s.Kill()
	send("7", 2)
	send("7", 3)
	send("8", 4)
	s.Restart(t)
	usertest.Eventually(t, "all are handled", time.Minute, func() bool { return trip.total() >= 4 })
	if got := trip.of("7"); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("handled %v", got)
	}
}

// A busy lock holds back its messages. After a restart they come again, and those behind them in the partition also do, because
// Kafka commits a position.
func TestAMemberOfKafkaThatStopsCommitsOnlyWhatIsDone(t *testing.T) {
	t.Parallel()
	trip, locks := newTrip(), lockmw.NewLocal()
	brokers, producer := startKafka(t)
	send := func(order string, number int) { produce(t, producer, payload(order, number)) } // all in partition 0
	release := usertest.Occupy(t, locks, "order:7")
	stop := startKafkaMember(t, brokers, producer, locks, trip)
	send("6", 1)
	send("7", 2)
	send("8", 3)
	usertest.Eventually(t, "others are handled", time.Minute, func() bool { return trip.total() == 2 })
	stop()
	release()
	startKafkaMember(t, brokers, producer, locks, trip)
	usertest.Eventually(t, "the rest is handled", time.Minute, func() bool { return trip.total() >= 4 })
	if six, seven, eight := trip.of("6"), trip.of("7"), trip.of("8"); len(six) != 1 || len(seven) != 1 || len(eight) != 2 {
		t.Errorf("handled %v, %v, %v", six, seven, eight)
	}
}

// Callers that share a list of options have callbacks of their own.
func TestAMemberOfKafkaDoesNotWriteIntoTheListOfItsOptions(t *testing.T) {
	t.Parallel()
	opts := make([]kgo.Opt, 1, 10)
	opts[0] = kgo.ConsumeTopics("orders")
	q := consume.New(lockmw.NewLocal(), lockmw.Const[*kgo.Record]("orders"), func(context.Context, *kgo.Record) error { return nil }, nil)
	if err := kafka.Run(t.Context(), q, time.Second, opts...); err == nil {
		t.Error("a member without a group runs")
	}
	if opts[:2][1] != nil {
		t.Error("the list was written to")
	}
}
