// Package settings parses the flags.
package settings

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/examples/internal/flags"
)

// Settings has the values of the flags.
type Settings struct {
	Users, Clicks, Items, Stock int
	Seed                        uint64
	Rush                        time.Duration // spread of the arrivals
	Redis                       []string      // addresses; none without the flag
	SentinelMaster              string        // name of the master, if Redis has the addresses of Sentinels
	Serve, OTLP, Metrics        string        // addresses; "" without the flag
	Contend, JSON               bool
}

const usage = `Orders runs a flash sale twice, without locks and with them, and compares the results.
With -serve it runs a shop instead, until Ctrl-C; with -contend it plays a scene for Jaeger.

`

func writeUsage(w io.Writer) { _, _ = io.WriteString(w, usage) }

// Parse reads args. With -h it writes the usage to stderr and returns flag.ErrHelp.
func Parse(args []string, stderr io.Writer) (Settings, error) {
	var c Settings
	f := flag.NewFlagSet("orders", flag.ContinueOnError)
	f.IntVar(&c.Users, "users", 400, "number of users")
	f.IntVar(&c.Clicks, "clicks", 3, "clicks of each user")
	f.IntVar(&c.Items, "items", 5, "number of different items")
	f.IntVar(&c.Stock, "stock", 40, "stock of each item")
	f.DurationVar(&c.Rush, "rush", 0, "spread the arrivals over this `time` (default 500µs per user)")
	f.Uint64Var(&c.Seed, "seed", 1, "random seed for items and click times")
	redis := f.String("redis", "", "use the Redis at `host:port` instead of an embedded one, or the Cluster of this\n"+
		"node; separate several addresses by commas")
	f.StringVar(&c.SentinelMaster, "sentinel-master", "", "`name` of the master; -redis then has the addresses of Sentinels")
	f.StringVar(&c.Serve, "serve", "", "run the shop at `address`, e.g. :8080, until Ctrl-C")
	f.BoolVar(&c.JSON, "json", false, "also print the figures as JSON, in the last line")
	f.BoolVar(&c.Contend, "contend", false, "let two users and their tasks wait for one item, and print each wait with its holder")
	f.StringVar(&c.OTLP, "otlp", "", "send spans and metrics to the OTLP gRPC collector at `host:port`")
	f.StringVar(&c.Metrics, "metrics", "", "serve Prometheus metrics at http://`address`/metrics until the program ends")

	if err := flags.Parse(f, args, stderr, writeUsage); err != nil {
		return c, err
	}
	if *redis != "" {
		c.Redis = strings.Split(*redis, ",")
	}
	err := c.check()
	f.Visit(func(set *flag.Flag) {
		if err == nil && c.Serve != "" && slices.Contains([]string{"users", "clicks", "rush", "seed"}, set.Name) {
			err = fmt.Errorf("-%s configures a sale, and -serve runs none", set.Name)
		}
		if err == nil && c.Contend && slices.Contains([]string{"users", "clicks", "rush", "items", "stock", "seed"}, set.Name) {
			err = fmt.Errorf("-%s configures a sale, and -contend runs none", set.Name)
		}
	})
	return c, err
}

func (c *Settings) check() error {
	err := cmp.Or(
		flags.CheckCount("users", c.Users, 100_000),
		flags.CheckCount("clicks", c.Clicks, 100),
		flags.CheckCount("items", c.Items, 10_000),
		flags.CheckCount("stock", c.Stock, 1_000_000),
	)
	if err != nil {
		return err
	}
	switch {
	case c.Rush < 0 || c.Rush > time.Hour:
		return fmt.Errorf("-rush is %v, must be from 0 to 1h", c.Rush)
	case c.Rush == 0:
		c.Rush = time.Duration(c.Users) * time.Millisecond / 2
	}
	for _, a := range []struct {
		flag, value string
		dialled     bool // false: a listen address, which may omit the host and have port 0
	}{
		{"serve", c.Serve, false},
		{"otlp", c.OTLP, true},
		{"metrics", c.Metrics, false},
	} {
		if a.value != "" && !flags.IsAddress(a.value, a.dialled) {
			return fmt.Errorf("-%s is %q, must be host:port", a.flag, a.value)
		}
	}
	for _, addr := range c.Redis {
		if !flags.IsAddress(addr, true) {
			return fmt.Errorf("-redis is %q, must be host:port, or several separated by commas", strings.Join(c.Redis, ","))
		}
	}
	switch {
	case c.SentinelMaster != "" && len(c.Redis) == 0:
		return errors.New("-sentinel-master needs the addresses of the Sentinels in -redis")
	case c.JSON && c.Serve != "":
		return errors.New("-json prints the figures of a sale, and -serve runs none")
	case c.JSON && c.Contend:
		return errors.New("-json prints the figures of a sale, and -contend runs none")
	case c.Serve != "" && c.Contend:
		return errors.New("-serve and -contend exclude each other")
	}
	return nil
}
