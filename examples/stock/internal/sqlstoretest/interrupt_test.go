package sqlstoretest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/idempotency/sqlstore"
	"github.com/lockmw/go/internal/test/interrupt"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
)

func TestMain(m *testing.M) {
	interrupt.ChildMain(openBuyer)
	suite.BeginBusy()
	m.Run()
}

// A buyerSpec describes a process that orders an item for each key.
type buyerSpec struct {
	Redis           string // its address
	Dialect         sqlstore.Dialect
	Driver, DSN     string
	Records, Orders string // tables
	Policy          string
	Lease           time.Duration
	Wait            time.Duration // for a run in flight
	Effort          time.Duration // how long an order works before it changes anything
}

// The policies.
const (
	runAgain = "RunAgain"
	refuse   = "Refuse"
	recovers = "Recover"
)

// A buyer calls in one process.
type buyer struct {
	buyerSpec
	rdb   *redis.Client
	locks *lockmw.Client
	db    *sql.DB
	once  *idempotency.Runner
}

// openBuyer is for interrupt.ChildMain.
func openBuyer(spec buyerSpec, s *interrupt.Steps) (interrupt.Call, func() error, error) {
	b, err := newBuyer(spec, s)
	if err != nil {
		return nil, nil, err
	}
	return b.call, b.close, nil
}

// newBuyer returns a buyer whose commands and statements are steps.
func newBuyer(spec buyerSpec, s *interrupt.Steps) (*buyer, error) {
	b := &buyer{buyerSpec: spec, rdb: redis.NewClient(&redis.Options{Addr: spec.Redis})}
	b.rdb.AddHook(s.Hook())
	db, err := sql.Open(spec.Driver, spec.DSN)
	if err != nil {
		return nil, err
	}
	b.db = sql.OpenDB(&tapped{driver: db.Driver(), dsn: spec.DSN, around: s.Around})
	b.db.SetMaxOpenConns(12)
	b.db.SetMaxIdleConns(12)
	if b.locks, err = lockmw.New(b.rdb, lockmw.WithLease(spec.Lease), lockmw.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		return nil, err
	}
	store := sqlstore.New(b.db, spec.Dialect, sqlstore.WithTable(spec.Records))
	b.once = idempotency.New(b.locks, idempotency.WithStore(store), idempotency.WithWait(spec.Wait))
	return b, db.Close()
}

func (b *buyer) close() error { return errors.Join(b.locks.Close(), b.rdb.Close(), b.db.Close()) }

func (b *buyer) call(ctx context.Context, id string) (string, error) {
	policy := map[string]idempotency.Policy{
		runAgain: idempotency.RunAgain, refuse: idempotency.Refuse, recovers: idempotency.Recover(b.find),
	}[b.Policy]
	return idempotency.Do(ctx, b.once, idempotency.Key{Scope: "user-7", ID: id}, "tea", policy, func(ctx context.Context, _ string) (string, error) {
		return b.order(ctx, id)
	})
}

// order inserts an order, and returns its item. It does not look whether its lock was lost.
func (b *buyer) order(ctx context.Context, id string) (string, error) {
	ctx = context.WithoutCancel(ctx)
	<-time.After(b.Effort)
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }()
	item := id + "/" + rand.Text()
	if _, err := tx.ExecContext(ctx, numbered(b.Dialect, `INSERT INTO `+b.Orders+` (item) VALUES (?)`), item); err != nil {
		return "", err
	}
	return item, sqlstore.Commit(ctx, tx)
}

// find is for Recover.
func (b *buyer) find(_ context.Context, u idempotency.Unfinished) (idempotency.Answer, error) {
	effects, err := b.effects(u.Key.ID)
	if err != nil {
		return idempotency.Answer{}, err
	}
	if len(effects) == 0 {
		return idempotency.Answer{}, idempotency.ErrNotDone
	}
	return idempotency.Result(effects[0].Answer)
}

func (b *buyer) effects(id string) (all []interrupt.Effect, err error) {
	rows, err := b.db.QueryContext(context.Background(), numbered(b.Dialect, `SELECT item FROM `+b.Orders+` WHERE item LIKE ?`), id+"/%")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e interrupt.Effect
		if err := rows.Scan(&e.Answer); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

// final are the outcomes that a repetition may get that comes last.
var final = map[string][]interrupt.Kind{
	runAgain: {interrupt.Success, interrupt.Done},
	refuse:   {interrupt.Success, interrupt.Done, interrupt.Unknown},
	recovers: {interrupt.Success},
}

func testInterruptions(t *testing.T, d database) {
	if d.variant == "" {
		t.Skip("one variant of each database is enough, and the drivers of others prepare statements")
	}
	steps := []string{"SELECT", "evalsha", "SELECT", "INSERT", "BEGIN", "INSERT", "UPDATE", "COMMIT", "UPDATE", "evalsha"}
	if d.dialect == sqlstore.MySQL {
		steps = append(steps, "SELECT") // Commit asks whether its transaction sees the run
	}
	for policy := range final {
		for _, fate := range []interrupt.Fate{interrupt.Kill, interrupt.Stop} {
			t.Run(policy+", "+string(fate), func(t *testing.T) {
				if !isSQLite(d) || policy != runAgain {
					suite.NeedsFull(t, "it needs many processes")
				}
				interrupt.Check(t, interruptedOrders(t, d, policy, fate), steps...)
			})
		}
	}
}

// openHere opens a buyer in this process, and returns the spec for others. They use the tables of b.
func openHere(t *testing.T, server *redistest.Server, b *testbed, policy string) (buyerSpec, *buyer) {
	t.Helper()
	spec := buyerSpec{
		Redis: server.Addr(), Dialect: b.dialect, Driver: b.driver, DSN: impatiently(b.dsn) + b.variant,
		Records: b.records, Orders: b.orders, Policy: policy, Lease: interrupt.Lease, Wait: 10 * time.Second,
	}
	here, err := newBuyer(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { isError(t, here.close(), nil) })
	return spec, here
}

func interruptedOrders(t *testing.T, d database, policy string, fate interrupt.Fate) []interrupt.Result {
	t.Helper()
	server := redistest.Redis(t)
	spec, here := openHere(t, server, newTestbed(t, d), policy)
	return interrupt.Play(t, fate, func(n int) interrupt.Stage {
		if isSQLite(d) { // a stopped process may lock the whole file
			d.dsn = sqliteFile(t)
			spec, here = openHere(t, server, newTestbed(t, d), policy)
		}
		key, effects := fmt.Sprintf("call-%d", n), here.effects
		return interrupt.Stage{
			Spec: spec, Key: key, Repeat: here.call, Once: true, Final: final[policy],
			Effects: func() ([]interrupt.Effect, error) { return effects(key) },
		}
	})
}
