package sqlstore

import (
	"fmt"
	"strings"
)

// Schema returns the SQL that creates the table of records, if it does not exist, and its index. An empty table is DefaultTable. Run
// it as part of your migrations. For PostgreSQL and SQLite there are two statements, each ending in a semicolon.
//
// Schema panics with an error that wraps lockmw.ErrInvalidOption if the dialect or the name is invalid: see WithTable.
func Schema(d Dialect, table string) string {
	if table == "" {
		table = DefaultTable
	}
	if err := check(d, table); err != nil {
		panic(fmt.Errorf("sqlstore.Schema: %w", err))
	}
	dot := strings.LastIndex(table, ".")
	in, name := table[:dot+1], table[dot+1:]
	return strings.NewReplacer("{table}", table, "{name}", name, "{in}", in).Replace(syntaxes[d].schema)
}

// The name of a column that could be a reserved word is longer than it would have to be.
const (
	postgresSchema = `CREATE TABLE IF NOT EXISTS {table} (
	idem_key    VARCHAR(255) PRIMARY KEY,
	state       VARCHAR(9) NOT NULL, -- none, open, committed, done
	fingerprint BYTEA NOT NULL,
	run         VARCHAR(64) NOT NULL,
	token       BIGINT NOT NULL,
	earlier     INTEGER NOT NULL,
	silent      INTEGER NOT NULL,
	returned    SMALLINT NOT NULL,
	began       TIMESTAMPTZ NOT NULL,
	expires     TIMESTAMPTZ NOT NULL,
	status      INTEGER NOT NULL,
	void_runs   TEXT NOT NULL,
	answer      BYTEA
);
CREATE INDEX IF NOT EXISTS {name}_expires ON {table} (expires);
`
	// The times are in UTC, whatever the time zone of a session.
	mysqlSchema = `CREATE TABLE IF NOT EXISTS {table} (
	idem_key    VARCHAR(255) PRIMARY KEY,
	state       VARCHAR(9) NOT NULL, -- none, open, committed, done
	fingerprint VARBINARY(32) NOT NULL,
	run         VARCHAR(64) NOT NULL,
	token       BIGINT NOT NULL,
	earlier     INTEGER NOT NULL,
	silent      INTEGER NOT NULL,
	returned    SMALLINT NOT NULL,
	began       DATETIME(6) NOT NULL,
	expires     DATETIME(6) NOT NULL,
	status      INTEGER NOT NULL,
	void_runs   MEDIUMTEXT NOT NULL,
	answer      LONGBLOB,
	INDEX {name}_expires (expires)
) ENGINE=InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
`
	// The times are microseconds since 1970.
	sqliteSchema = `CREATE TABLE IF NOT EXISTS {table} (
	idem_key    TEXT PRIMARY KEY NOT NULL,
	state       TEXT NOT NULL, -- none, open, committed, done
	fingerprint BLOB NOT NULL,
	run         TEXT NOT NULL,
	token       INTEGER NOT NULL,
	earlier     INTEGER NOT NULL,
	silent      INTEGER NOT NULL,
	returned    INTEGER NOT NULL,
	began       INTEGER NOT NULL,
	expires     INTEGER NOT NULL,
	status      INTEGER NOT NULL,
	void_runs   TEXT NOT NULL,
	answer      BLOB
);
CREATE INDEX IF NOT EXISTS {in}{name}_expires ON {name} (expires);
`
)
