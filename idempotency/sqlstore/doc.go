// Package sqlstore keeps the records of package idempotency in PostgreSQL, MariaDB, MySQL or SQLite. With Commit, the effects of
// a run in that database happen once: the record says that the run is done exactly if its transaction was committed.
//
//	once := idempotency.New(locks, idempotency.WithStore(sqlstore.New(db, sqlstore.Postgres)))
//
//	order, err := idempotency.Do(ctx, once, key, cart, idempotency.RunAgain, func(ctx context.Context, c Cart) (Order, error) {
//		tx, err := db.BeginTx(ctx, nil)
//		if err != nil {
//			return Order{}, err
//		}
//		defer tx.Rollback()
//		order, err := insertOrder(ctx, tx, c)
//		if err != nil {
//			return Order{}, err
//		}
//		return order, sqlstore.Commit(ctx, tx)
//	})
//
// RunAgain is safe here, because a run that has not committed has changed nothing. Effects elsewhere, such as an e-mail, may
// still happen twice.
//
// # Set-up
//
// Create the table that Schema returns, in the database that the work changes. Pass a *sql.DB of the primary to New: a replica
// may lack a record. Call Cleanup now and then, for example every minute by lockmw.Once. Any driver of the database will do. A
// handler must not hold the last connection of the pool while the record of its key is read or written.
//
// The lock only saves work: two runs of a key that both believe that they hold it cannot both commit.
//
// # Databases
//
//   - PostgreSQL 9.5 or later.
//   - MariaDB 10.6 or MySQL 8.0.1 or later, with InnoDB for this table and for all tables that the work changes. Statements that
//     end a transaction, such as CREATE TABLE, must not be in the handler's transaction. The format of the binary log must be ROW
//     or MIXED.
//   - SQLite 3.24 or later. One transaction writes at a time, so a key may be in flight because another key is. A busy timeout, for
//     example _pragma=busy_timeout(5000), lets transactions wait for each other.
//
// All times come from the database's clock, and are in UTC.
package sqlstore
