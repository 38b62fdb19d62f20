package sqlstoretest

import (
	"context"
	"database/sql/driver"
	"strings"
)

// A tapped connector makes connections whose statements pass through functions. These connections never prepare statements
// themselves, so a driver that does must be told not to.
type tapped struct {
	driver driver.Driver
	dsn    string
	around func(statement string, execute func() error) error // for all statements; nil: execute them
	commit func(tx driver.Tx) error                           // instead of tx.Commit, if not nil
}

func (c *tapped) Driver() driver.Driver { return c.driver }

func (c *tapped) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	return &tappedConn{conn, c}, err
}

// do executes a statement.
func (c *tapped) do(statement string, execute func() error) error {
	if c.around == nil {
		return execute()
	}
	verb, _, _ := strings.Cut(statement, " ")
	return c.around(verb, execute)
}

type tappedConn struct {
	driver.Conn
	tap *tapped
}

func (c *tappedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	var tx driver.Tx
	err := c.tap.do("BEGIN", func() (err error) {
		tx, err = c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
		return err
	})
	return &tappedTx{tx, c.tap}, err
}

func (c *tappedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	err = c.tap.do(query, func() error {
		res, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

func (c *tappedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = c.tap.do(query, func() error {
		rows, err = c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
		return err
	})
	return rows, err
}

type tappedTx struct {
	driver.Tx
	tap *tapped
}

func (tx *tappedTx) Commit() error {
	commit := tx.Tx.Commit
	if tx.tap.commit != nil {
		commit = func() error { return tx.tap.commit(tx.Tx) }
	}
	return tx.tap.do("COMMIT", commit)
}
