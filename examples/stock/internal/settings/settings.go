// Package settings parses the flags.
package settings

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/examples/internal/flags"
	"github.com/lockmw/go/examples/stock/internal/books"
	"github.com/lockmw/go/examples/stock/internal/crowd"
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// Settings has the values of the flags.
type Settings struct {
	crowd.Plan

	Stock    int // of each item
	Payment  time.Duration
	Ways     []ways.Way
	Redis    string // an address; "" without the flag
	Database string // a URL; "" without the flag
	JSON     bool
	SVG      string // a file; "" without the flag
}

const usage = `Stock sells the last items of a shop in many ways, over HTTP and in two processes, and
reproduces the faults of each way. Ways, for -ways:

`

// Parse reads args. With -h it writes the usage to stderr and returns flag.ErrHelp.
func Parse(args []string, stderr io.Writer) (Settings, error) {
	var c Settings
	f := flag.NewFlagSet("stock", flag.ContinueOnError)
	f.IntVar(&c.Users, "users", 200, "number of users")
	f.IntVar(&c.Clicks, "clicks", 3, "clicks of each user")
	f.IntVar(&c.Items, "items", 1, "number of different items")
	f.IntVar(&c.Stock, "stock", 50, "stock of each item")
	f.IntVar(&c.AtOnce, "at-once", 32, "number of simultaneous clicks")
	f.Uint64Var(&c.Seed, "seed", 1, "random seed for the items that users want")
	f.DurationVar(&c.Payment, "payment", time.Millisecond, "duration of a payment")
	names := f.String("ways", "", "`names` of the ways to run, separated by commas (default all)")
	f.StringVar(&c.Redis, "redis", "", "use the Redis at `host:port` instead of an embedded one")
	f.StringVar(&c.Database, "db", "", "use the database at `url` instead of an embedded SQLite:\n"+
		"postgres://user:password@host/database or mysql://user:password@host/database")
	f.BoolVar(&c.JSON, "json", false, "also print the figures as JSON, in the last line")
	f.StringVar(&c.SVG, "svg", "", "draw the figures into the SVG `file`")

	if err := flags.Parse(f, args, stderr, writeUsage); err != nil {
		return c, err
	}
	if err := c.check(); err != nil {
		return c, err
	}
	var err error
	c.Ways, err = choose(*names)
	return c, err
}

func writeUsage(w io.Writer) {
	_, _ = io.WriteString(w, usage)
	for _, way := range ways.All() {
		_, _ = fmt.Fprintf(w, "  %-18s%s\n", way.Name, way.Does)
	}
	_, _ = io.WriteString(w, "\n")
}

func (c *Settings) check() error {
	err := cmp.Or(
		flags.CheckCount("users", c.Users, 100_000),
		flags.CheckCount("clicks", c.Clicks, 100),
		flags.CheckCount("items", c.Items, 1_000),
		flags.CheckCount("stock", c.Stock, 1_000_000),
		flags.CheckCount("at-once", c.AtOnce, 1_000),
	)
	if err != nil {
		return err
	}
	if c.Payment < 0 || c.Payment > time.Minute {
		return fmt.Errorf("-payment is %v, must be from 0 to 1m", c.Payment)
	}
	if c.Redis != "" && !flags.IsAddress(c.Redis, true) {
		return fmt.Errorf("-redis is %q, must be host:port", c.Redis)
	}
	if c.Database != "" {
		if err := books.Check(c.Database); err != nil {
			return fmt.Errorf("-db: %w", err)
		}
	}
	return nil
}

// choose returns the ways with these names, or all.
func choose(names string) ([]ways.Way, error) {
	all := ways.All()
	if names == "" {
		return all, nil
	}
	var chosen []ways.Way
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(w ways.Way) bool { return w.Name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("unknown way %q (-h lists the ways)", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
