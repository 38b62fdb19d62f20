// Package settings reads the flags.
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

// Settings are what the flags say.
type Settings struct {
	Users, Clicks, Items, Stock int
	Seed                        uint64
	Rush                        time.Duration // until all have clicked
	Redis                       []string      // addresses; none without the flag
	SentinelMaster              string        // its name, if the addresses are those of Sentinels
	Serve, OTLP, Metrics        string        // addresses; "" without the flag
	Contend, JSON               bool
}

const usage = `Orders is a flash sale, first without locks and then with them. With -serve it is a
shop that stays open instead, and with -contend a scene to look at in Jaeger.

`

func writeUsage(w io.Writer) { _, _ = io.WriteString(w, usage) }

// Parse reads args. With -h it writes the usage to stderr and returns flag.ErrHelp.
func Parse(args []string, stderr io.Writer) (Settings, error) {
	var c Settings
	f := flag.NewFlagSet("orders", flag.ContinueOnError)
	f.IntVar(&c.Users, "users", 400, "how many people want something")
	f.IntVar(&c.Clicks, "clicks", 3, "how often each of them clicks")
	f.IntVar(&c.Items, "items", 5, "how many different things are for sale")
	f.IntVar(&c.Stock, "stock", 40, "how many there are of each")
	f.DurationVar(&c.Rush, "rush", 0, "within which `time` they come (default 500µs for each of them)")
	f.Uint64Var(&c.Seed, "seed", 1, "who wants what, and when they click")
	redis := f.String("redis", "", "use the Redis at `host:port` instead of an embedded one, or a Cluster of which\n"+
		"this is a node; several are separated by commas")
	f.StringVar(&c.SentinelMaster, "sentinel-master", "", "use the master to which the Sentinels at -redis give this `name`")
	f.StringVar(&c.Serve, "serve", "", "open the shop at `address`, e.g. :8080, until Ctrl-C")
	f.BoolVar(&c.JSON, "json", false, "print the figures as JSON too, as the last line")
	f.BoolVar(&c.Contend, "contend", false, "let two people and their tasks wait for one item, and say who waited for whom")
	f.StringVar(&c.OTLP, "otlp", "", "send spans and metrics to the OTLP gRPC collector at `host:port`")
	f.StringVar(&c.Metrics, "metrics", "", "serve Prometheus metrics at http://`address`/metrics until it ends")

	if err := flags.Parse(f, args, stderr, writeUsage); err != nil {
		return c, err
	}
	if *redis != "" {
		c.Redis = strings.Split(*redis, ",")
	}
	err := c.check()
	f.Visit(func(set *flag.Flag) {
		if err == nil && c.Serve != "" && slices.Contains([]string{"users", "clicks", "rush", "seed"}, set.Name) {
			err = fmt.Errorf("-%s is about a sale, and -serve runs none", set.Name)
		}
		if err == nil && c.Contend && slices.Contains([]string{"users", "clicks", "rush", "items", "stock", "seed"}, set.Name) {
			err = fmt.Errorf("-%s is about a sale, and -contend runs none", set.Name)
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
		dialled     bool // a listener may leave out the host, and take any port
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
			return fmt.Errorf("-redis is %q, must be host:port, or several with a comma between", strings.Join(c.Redis, ","))
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
		return errors.New("-serve and -contend are two different things to do")
	}
	return nil
}
