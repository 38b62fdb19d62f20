package sqlstore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lockmw/go/lockmw"
)

// A Dialect names a kind of database.
type Dialect int8

// The dialects.
const (
	Postgres Dialect = iota + 1
	MySQL            // MariaDB and MySQL, with InnoDB
	SQLite
)

// String returns "PostgreSQL", "MySQL" or "SQLite".
func (d Dialect) String() string {
	if d.check() != nil {
		return "Dialect(" + strconv.Itoa(int(d)) + ")"
	}
	return syntaxes[d].name
}

func (d Dialect) check() error {
	if d < Postgres || d > SQLite {
		return fmt.Errorf("%w: %d is not a Dialect", lockmw.ErrInvalidOption, int8(d))
	}
	return nil
}

// A syntax has the differences between dialects.
type syntax struct {
	name     string
	numbered bool   // placeholders are $1, $2, …, not ?
	now      string // the time of the statement
	until    string // ? microseconds later
	micros   string // of a time in column %s: microseconds since 1970
	once     string // end of an INSERT that does nothing if the key exists
	nowait   string // locks the row of a SELECT, or fails if it is locked
	expired  string // locks and returns up to ? expired keys, if remove cannot do it
	remove   string // deletes up to ? expired rows; after expired, the row of key ?
	schema   string
}

var syntaxes = [...]syntax{
	Postgres: {
		name: "PostgreSQL", numbered: true,
		now:    `statement_timestamp()`,
		until:  `statement_timestamp() + CAST(? AS bigint) * interval '1 microsecond'`,
		micros: `CAST(EXTRACT(EPOCH FROM %s) * 1000000 AS bigint)`,
		once:   ` ON CONFLICT (idem_key) DO NOTHING`,
		nowait: ` FOR UPDATE NOWAIT`,
		// The array is made once. A subquery after IN may run several times, with other rows each time.
		remove: `DELETE FROM {table} WHERE idem_key = ANY (ARRAY(` + expiredSQL + ` FOR UPDATE SKIP LOCKED))`,
		schema: postgresSchema,
	},
	MySQL: {
		name:   "MySQL",
		now:    `UTC_TIMESTAMP(6)`,
		until:  `UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND`,
		micros: `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', %s)`,
		nowait: ` FOR UPDATE NOWAIT`,
		// A DELETE must not select from its table with LIMIT. A DELETE of many keys may read all rows, and then waits for locked ones.
		expired: expiredSQL + ` FOR UPDATE SKIP LOCKED`,
		remove:  `DELETE FROM {table} WHERE idem_key = ?`,
		schema:  mysqlSchema,
	},
	SQLite: {
		name:   "SQLite",
		now:    sqliteNow,
		until:  sqliteNow + ` + ?`,
		micros: `%s`,
		once:   ` ON CONFLICT (idem_key) DO NOTHING`,
		remove: `DELETE FROM {table} WHERE idem_key IN (` + expiredSQL + `)`,
		schema: sqliteSchema,
	},
}

// sqliteNow is exact to about a millisecond, because julianday is a float.
const sqliteNow = `CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000`

// statements are the SQL of a Store.
type statements struct {
	look, lock          string
	insert, begin, void string
	keep, forget, leave string
	seen, mark          string
	expired, remove     string
}

const (
	selectSQL = `SELECT state, fingerprint, run, token, earlier, silent, returned, {began}, answer, void_runs, {micros}, ` +
		`CASE WHEN expires > {now} THEN 1 ELSE 0 END FROM {table} WHERE idem_key = ?`
	insertSQL = `INSERT INTO {table} (idem_key, state, fingerprint, run, token, earlier, silent, returned, void_runs, status, began, expires) ` +
		`VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, {now}, {until})`
	// An UPDATE of all these columns takes the values of row.values first.
	updateSQL = `UPDATE {table} SET state = ?, fingerprint = ?, run = ?, token = ?, earlier = ?, silent = ?, returned = ?, void_runs = ?, `
	beginSQL  = updateSQL + `status = 0, answer = NULL, began = {now}, expires = {until} WHERE idem_key = ?`
	// MariaDB assigns from left to right, so expires comes last.
	voidSQL = updateSQL + `answer = CASE WHEN expires > {now} THEN answer END, ` +
		`expires = CASE WHEN expires > {until} THEN expires ELSE {until} END WHERE idem_key = ?`
	keepSQL = `UPDATE {table} SET state = 'done', status = ?, answer = ?, expires = {until} ` +
		`WHERE idem_key = ? AND run = ? AND state IN (?, 'committed') AND expires > {now}`
	forgetSQL  = `UPDATE {table} SET state = 'none', fingerprint = '', run = ''` + ifOpen
	leaveSQL   = `UPDATE {table} SET returned = 1` + ifOpen
	markSQL    = `UPDATE {table} SET state = 'committed'` + ifOpen
	seenSQL    = `SELECT 1 FROM {table}` + ifOpen
	expiredSQL = `SELECT idem_key FROM {table} WHERE expires <= {now} ORDER BY expires LIMIT ?`
	ifOpen     = ` WHERE idem_key = ? AND run = ? AND state = 'open' AND expires > {now}`
)

// newStatements returns the SQL for a table, whose name was checked.
func newStatements(d Dialect, table string) *statements {
	x := &syntaxes[d]
	replacer := strings.NewReplacer(
		"{table}", table, "{now}", x.now, "{until}", x.until,
		"{began}", fmt.Sprintf(x.micros, "began"), "{micros}", fmt.Sprintf(x.micros, x.now))
	text := func(template string) string { return x.number(replacer.Replace(template)) }
	return &statements{
		look:    text(selectSQL),
		lock:    text(selectSQL + x.nowait),
		insert:  text(insertSQL + x.once),
		begin:   text(beginSQL),
		void:    text(voidSQL),
		keep:    text(keepSQL),
		forget:  text(forgetSQL),
		leave:   text(leaveSQL),
		mark:    text(markSQL),
		seen:    text(seenSQL),
		expired: text(x.expired),
		remove:  text(x.remove),
	}
}

// number replaces each ? by its number, if the dialect numbers its placeholders.
func (x *syntax) number(text string) string {
	if !x.numbered {
		return text
	}
	var b strings.Builder
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(part)
	}
	return b.String()
}
