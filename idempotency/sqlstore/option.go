package sqlstore

import (
	"fmt"
	"regexp"

	"github.com/lockmw/go/lockmw"
)

// DefaultTable is the name of the table without WithTable.
const DefaultTable = "lockmw_idempotency"

// An Option configures a Store.
type Option func(*config)

type config struct{ table string }

// WithTable sets the name of the table. It consists of ASCII letters, digits and _, does not begin with a digit, has at most 48
// characters, and is no reserved word of the database. A schema may precede it: app.idempotency. Default: DefaultTable.
func WithTable(name string) Option { return func(c *config) { c.table = name } }

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,47}\.)?[A-Za-z_][A-Za-z0-9_]{0,47}$`)

func check(d Dialect, table string) error {
	if err := d.check(); err != nil {
		return err
	}
	if !tableName.MatchString(table) {
		return fmt.Errorf("%w: %q is not the name of a table: letters, digits and _, at most 48", lockmw.ErrInvalidOption, table)
	}
	return nil
}
