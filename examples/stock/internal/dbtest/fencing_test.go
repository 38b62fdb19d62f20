package dbtest_test

import (
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // the driver

	"github.com/lockmw/go/examples/stock/internal/dbtest"
)

// statements are the statements of docs/fencing.md for one kind of placeholder.
type statements struct{ addColumn, read, write string }

// pageStatements reads docs/fencing.md: with $1, $2, … if numbered, with ? otherwise.
func pageStatements(t *testing.T, numbered bool) statements {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "fencing.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 3 {
		t.Fatalf("docs/fencing.md has %d blocks of SQL, want 3", len(blocks))
	}
	pair := blocks[2][1]
	if numbered {
		pair = blocks[1][1]
	}
	read, write, ok := strings.Cut(pair, ";")
	if !ok || numbered != strings.Contains(pair, "$1") {
		t.Fatalf("not a SELECT and an UPDATE for these placeholders (numbered: %t): %s", numbered, pair)
	}
	return statements{blocks[0][1], read, write}
}

// fencedItems is a database with the column that the page adds, and the statements of the page.
type fencedItems struct {
	*testing.T
	db       *sql.DB
	page     statements
	numbered bool
}

func newFencedItems(t *testing.T, driver, dsn string, numbered bool) *fencedItems {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	f := &fencedItems{t, db, pageStatements(t, numbered), numbered}
	f.exec(`CREATE TABLE items (id VARCHAR(64) PRIMARY KEY, stock BIGINT NOT NULL)`)
	f.exec(f.page.addColumn)
	return f
}

func (f *fencedItems) exec(statement string) {
	f.Helper()
	if _, err := f.db.ExecContext(f.Context(), statement); err != nil {
		f.Fatalf("%s: %v", statement, err)
	}
}

func (f *fencedItems) read(item string) (stock, fence int64) {
	f.Helper()
	if err := f.db.QueryRowContext(f.Context(), f.page.read, item).Scan(&stock, &fence); err != nil {
		f.Fatal(err)
	}
	return stock, fence
}

// write writes as the page does in Go, and reports whether a row has changed.
func (f *fencedItems) write(item string, stock, token, fence int64) bool {
	f.Helper()
	if token == 0 {
		token = fence + 1
	}
	args := []any{stock, token, item, fence}
	if !f.numbered {
		args = append(args, token)
	}
	res, err := f.db.ExecContext(f.Context(), f.page.write, args...)
	if err != nil {
		f.Errorf("%s: %v", f.page.write, err)
		return false
	}
	n, err := res.RowsAffected()
	if err != nil || n > 1 {
		f.Errorf("%d rows have changed, %v", n, err)
	}
	return n == 1
}

const (
	token = int64(1795358195100824)
	now   = int64(-1) // the writer reads the fence right before its write
)

var fencedWrites = []struct {
	name   string
	writes []fencedWrite
}{
	{"one holder after another", []fencedWrite{{token, now, true}, {token + 1, now, true}}},
	{"a holder writes again", []fencedWrite{{token, now, true}, {token, now, true}, {token, token, true}}},
	{"a late holder, after the next one has written", []fencedWrite{{token + 1, 0, true}, {token, 0, false}, {token, now, false}}},
	{"a late holder, after the next one has read", []fencedWrite{{token, 0, true}, {token + 1, 0, false}, {token + 1, now, true}}},
	{"no lock, one after another", []fencedWrite{{0, now, true}, {0, now, true}}},
	{"no lock, two that read the same", []fencedWrite{{0, 0, true}, {0, 0, false}}},
	{"no lock, after a holder", []fencedWrite{{token, now, true}, {0, now, true}, {token + 2, now, true}}},
	{"no lock, and a holder has written meanwhile", []fencedWrite{{token, 0, true}, {0, 0, false}}},
	{"a holder, and a call without the lock has written meanwhile", []fencedWrite{{0, 0, true}, {token, 0, false}, {token, now, true}}},
	{"a holder, overtaken without the lock since it wrote", []fencedWrite{{token, now, true}, {0, now, true}, {token, token, false}, {token, now, false}}},
}

type fencedWrite struct {
	token, fence int64
	succeeds     bool
}

func (f *fencedItems) testWrites() {
	for _, c := range fencedWrites {
		f.Run(c.name, func(t *testing.T) {
			f := *f
			f.T = t
			const stock = 10
			f.exec(`DELETE FROM items`)
			f.exec(`INSERT INTO items (id, stock) VALUES ('item-1', 10), ('item-2', 10)`)
			left := int64(stock)
			for i, w := range c.writes {
				_, fence := f.read("item-1")
				if w.fence != now {
					fence = w.fence
				}
				if f.write("item-1", left-1, w.token, fence) != w.succeeds {
					t.Errorf("write %d succeeds: %t, want %t", i+1, !w.succeeds, w.succeeds)
				}
				if w.succeeds {
					left--
				}
			}
			if has, _ := f.read("item-1"); has != left {
				t.Errorf("stock is %d, want %d", has, left)
			}
			if has, fence := f.read("item-2"); has != stock || fence != 0 {
				t.Errorf("the other item has stock %d and fence %d", has, fence)
			}
		})
	}
}

// testSameValues shows that a hold may write unchanged values, which MariaDB by default does not count as changed rows.
func (f *fencedItems) testSameValues() {
	f.exec(`DELETE FROM items`)
	f.exec(`INSERT INTO items (id, stock) VALUES ('item-1', 10)`)
	for range 2 {
		if _, fence := f.read("item-1"); !f.write("item-1", 9, token, fence) {
			f.Error("a hold that writes the same twice is refused")
		}
	}
}

// testCrowd lets calls without a lock read the same stock and then write concurrently.
func (f *fencedItems) testCrowd() {
	f.exec(`DELETE FROM items`)
	f.exec(`INSERT INTO items (id, stock) VALUES ('item-1', 10)`)
	stock, fence := f.read("item-1")
	const callers = 8
	succeeded := make(chan bool, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() { succeeded <- f.write("item-1", stock-1, 0, fence) })
	}
	all.Wait()
	close(succeeded)
	n := 0
	for ok := range succeeded {
		if ok {
			n++
		}
	}
	if n != 1 {
		f.Errorf("%d of %d calls have written", n, callers)
	}
}

func (f *fencedItems) test() {
	f.testWrites()
	f.testSameValues()
	f.testCrowd()
}

func TestTheStatementsOfThePageOnSQLite(t *testing.T) {
	for name, numbered := range map[string]bool{"numbered": true, "question marks": false} {
		t.Run(name, func(t *testing.T) {
			dsn := "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "shop.db")) + "?_pragma=busy_timeout(20000)"
			newFencedItems(t, "sqlite", dsn, numbered).test()
		})
	}
}

func TestTheStatementsOfThePageOnPostgreSQL(t *testing.T) {
	newFencedItems(t, "pgx", dbtest.Postgres(t).URL("shop"), true).test()
}

func TestTheStatementsOfThePageOnMariaDB(t *testing.T) {
	u, err := url.Parse(dbtest.MariaDB(t).URL("shop"))
	if err != nil {
		t.Fatal(err)
	}
	newFencedItems(t, "mysql", u.User.String()+"@tcp("+u.Host+")"+u.Path+"?clientFoundRows=true", false).test()
}
