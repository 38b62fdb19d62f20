package recipes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockmw/go/examples/recipes/natsqueue"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// An event is the payload of a message.
type event struct {
	Order  string
	Number int
}

// orderOf makes the key of a payload.
func orderOf(payload []byte) (string, error) {
	var e event
	if err := json.Unmarshal(payload, &e); err != nil {
		return "", err
	}
	return lockmw.Key("order", e.Order), nil
}

// consumeNATS is what a service runs in each of its processes.
func consumeNATS(ctx context.Context, conn *nats.Conn, js jetstream.JetStream, locks lockmw.Locker,
	ship func(context.Context, jetstream.Msg) error,
) error {
	pull, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", jetstream.ConsumerConfig{
		Durable: "shipping", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
	})
	if err != nil {
		return err
	}
	consumer := natsqueue.Consumer{Conn: conn, Pull: pull, AckWait: ackWait, Grace: 10 * time.Second}
	byOrder := func(_ context.Context, m jetstream.Msg) (string, error) { return orderOf(m.Data()) }
	deadLetter := func(ctx context.Context, m jetstream.Msg, attempt int, err error) error {
		if attempt < 5 && errors.Is(err, errShipping) {
			return err // try again
		}
		_, err = js.Publish(ctx, "dead.orders", m.Data())
		return err
	}
	return consumer.Run(ctx, locks, byOrder, ship, deadLetter, lockmw.WithLease(ackWait))
}

const ackWait = 3 * time.Second // 30 s in a service; a busy machine may keep a process from its refreshes for a second

var errShipping = errors.New("shipping failed")

// startNATS starts a server with the streams of these tests.
func startNATS(t testing.TB) (url string) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	return s.ClientURL()
}

func connectNATS(t testing.TB, url string) (*nats.Conn, jetstream.JetStream) {
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	for name, subject := range map[string]string{"ORDERS": "orders", "DEAD": "dead.*"} {
		// The server may still write a file after its shutdown.
		config := jetstream.StreamConfig{Name: name, Subjects: []string{subject}, Storage: jetstream.MemoryStorage}
		if _, err := js.CreateOrUpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	return conn, js
}

func publish(t testing.TB, js jetstream.JetStream, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		if _, err := js.Publish(t.Context(), "orders", []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
}

func payload(order string, number int) string {
	text, _ := json.Marshal(event{order, number})
	return string(text)
}

// A trip records the events that were handled, and fails a test if two handlers of an order run together.
type trip struct {
	mu      sync.Mutex
	handled map[string][]int // by order
	running map[string]bool
}

func newTrip() *trip { return &trip{handled: make(map[string][]int), running: make(map[string]bool)} }

func (r *trip) handle(t testing.TB, payload []byte) {
	var e event
	if err := json.Unmarshal(payload, &e); err != nil {
		t.Error(err)
	}
	r.mu.Lock()
	if r.running[e.Order] {
		t.Errorf("two handlers of order %s", e.Order)
	}
	r.running[e.Order] = true
	r.mu.Unlock()
	time.Sleep(time.Millisecond) // it ships
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[e.Order] = false
	r.handled[e.Order] = append(r.handled[e.Order], e.Number)
}

func (r *trip) of(order string) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.handled[order])
}

func (r *trip) total() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.handled {
		n += len(list)
	}
	return n
}

func startNATSMember(t *testing.T, url string, locks lockmw.Locker, trip *trip) (stop func()) {
	conn, js := connectNATS(t, url)
	return start(t, func(ctx context.Context) error {
		return consumeNATS(ctx, conn, js, locks, func(_ context.Context, m jetstream.Msg) error {
			trip.handle(t, m.Data())
			return nil
		})
	})
}

func noneIsPendingInNATS(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	usertest.Eventually(t, "no message is pending", time.Minute, func() bool {
		pull, err := js.Consumer(t.Context(), "ORDERS", "shipping")
		return err == nil && pull.CachedInfo().NumAckPending == 0 && pull.CachedInfo().NumPending == 0
	})
}

func TestReceiversOfNATSExcludeEachOtherByKey(t *testing.T) {
	t.Parallel()
	s, url, trip := redistest.Redis(t), startNATS(t), newTrip()
	_, js := connectNATS(t, url)
	for range 3 {
		startNATSMember(t, url, usertest.Client(t, s), trip)
	}
	const n = 200
	for i := range n {
		publish(t, js, payload(fmt.Sprint(i%5), i))
	}
	usertest.Eventually(t, "all are handled", time.Minute, func() bool { return trip.total() >= n })
	noneIsPendingInNATS(t, js)
	if got := trip.total(); got != n {
		t.Errorf("%d were handled, want %d", got, n)
	}
}

func TestMessagesOfNATSThatCannotBeHandledAreDeadLetters(t *testing.T) {
	t.Parallel()
	s, url, trip := redistest.Redis(t), startNATS(t), newTrip()
	_, js := connectNATS(t, url)
	publish(t, js, "{", payload("", 1), payload(strings.Repeat("x", 2048), 2), payload("7", 3))
	startNATSMember(t, url, usertest.Client(t, s), trip)
	usertest.Eventually(t, "the good one is handled", time.Minute, func() bool { return slices.Equal(trip.of("7"), []int{3}) })
	noneIsPendingInNATS(t, js)
	dead, err := js.Stream(t.Context(), "DEAD")
	if err != nil || dead.CachedInfo().State.Msgs != 3 {
		t.Errorf("%v, %+v; want 3 dead letters", err, dead.CachedInfo().State)
	}
}

func TestMessagesOfNATSWaitForTheRedisOfTheLocks(t *testing.T) {
	t.Parallel()
	s, url, trip := redistest.Redis(t), startNATS(t), newTrip()
	_, js := connectNATS(t, url)
	startNATSMember(t, url, usertest.Client(t, s, lockmw.WithLogger(slog.New(slog.DiscardHandler))), trip)
	publish(t, js, payload("7", 1))
	usertest.Eventually(t, "the first is handled", time.Minute, func() bool { return trip.total() == 1 })
	noneIsPendingInNATS(t, js)
	s.Kill()
	publish(t, js, payload("7", 2), payload("7", 3))
	usertest.Eventually(t, "both are received", time.Minute, func() bool {
		pull, err := js.Consumer(t.Context(), "ORDERS", "shipping")
		return err == nil && pull.CachedInfo().NumAckPending == 2
	})
	s.Restart(t)
	noneIsPendingInNATS(t, js)
	if got := trip.of("7"); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("handled %v", got)
	}
}

// The first handler lasts for twice AckWait, and the second message waits behind it.
func TestMessagesOfNATSThatWaitAreNotDeliveredAgain(t *testing.T) {
	t.Parallel()
	url, trip, locks := startNATS(t), newTrip(), lockmw.NewLocal()
	_, js := connectNATS(t, url)
	release := usertest.Occupy(t, locks, "order:7")
	startNATSMember(t, url, locks, trip)
	publish(t, js, payload("7", 1), payload("7", 2))
	usertest.Eventually(t, "both are received", time.Minute, func() bool {
		pull, err := js.Consumer(t.Context(), "ORDERS", "shipping")
		return err == nil && pull.CachedInfo().NumAckPending == 2
	})
	late := time.After(2 * ackWait)
	usertest.Receive(t, "time passes", late)
	pull, err := js.Consumer(t.Context(), "ORDERS", "shipping")
	if err != nil || pull.CachedInfo().NumRedelivered != 0 {
		t.Errorf("%v; %d were delivered again", err, pull.CachedInfo().NumRedelivered)
	}
	release()
	noneIsPendingInNATS(t, js)
	if got := trip.of("7"); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("handled %v", got)
	}
}

// A member that stops returns messages immediately, and another one handles them.
func TestAReceiverOfNATSThatStopsHandsItsMessagesBack(t *testing.T) {
	t.Parallel()
	url, trip, locks := startNATS(t), newTrip(), lockmw.NewLocal()
	_, js := connectNATS(t, url)
	release := usertest.Occupy(t, locks, "order:7")
	stop := startNATSMember(t, url, locks, trip)
	publish(t, js, payload("7", 1), payload("7", 2))
	usertest.Eventually(t, "both are received", time.Minute, func() bool {
		pull, err := js.Consumer(t.Context(), "ORDERS", "shipping")
		return err == nil && pull.CachedInfo().NumAckPending == 2
	})
	stop()
	release()
	if n := trip.total(); n != 0 {
		t.Errorf("%d were handled", n)
	}
	startNATSMember(t, url, locks, trip)
	noneIsPendingInNATS(t, js)
	if got := trip.of("7"); len(got) != 2 { // NATS may swap what was handed back
		t.Errorf("handled %v", got)
	}
}

// The connection is gone when a handled message is to be acknowledged, and does not come back.
func TestAReceiverOfNATSStopsWithoutItsServer(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	_, producer := connectNATS(t, url)
	conn, js := connectNATS(t, url)
	pull, err := js.CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "shipping", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	handled := make(chan struct{})
	stop := start(t, func(ctx context.Context) error {
		receiver := natsqueue.Consumer{Conn: conn, Pull: pull, AckWait: time.Hour, Grace: time.Millisecond}
		return receiver.Run(ctx, lockmw.NewLocal(), lockmw.Const[jetstream.Msg]("orders"), func(context.Context, jetstream.Msg) error {
			conn.Close()
			close(handled)
			return nil
		}, nil)
	})
	publish(t, producer, payload("7", 1))
	usertest.Receive(t, "it is handled", handled)
	stop()
}
