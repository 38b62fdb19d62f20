package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/examples/internal/flags"
)

// A settings has the values of the flags.
type settings struct {
	redis  []string // addresses; none without the flag
	loads  []load
	ways   []*way
	length time.Duration // of each cell: one way under one load
	json   bool
	svg    string // a file; "" without the flag
}

// A load is a number of sellers and buyers.
type load struct{ sellers, buyers int }

func (l load) String() string { return fmt.Sprintf("%dx%d", l.sellers, l.buyers) }

// words describes the load.
func (l load) words() string {
	return plural(l.sellers, "seller") + " × " + plural(l.buyers, "buyer")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

const usage = `Market compares ways to guard a marketplace in Redis: no guard, WATCH, locks, and a Lua script.
Sellers list items in one sorted set, and buyers buy them.

`

func writeUsage(w io.Writer) { _, _ = io.WriteString(w, usage) }

// parse reads args. With -h it writes the usage to stderr and returns flag.ErrHelp.
func parse(args []string, stderr io.Writer) (settings, error) {
	var c settings
	f := flag.NewFlagSet("market", flag.ContinueOnError)
	redis := f.String("redis", "", "use the Redis at `host:port` instead of an embedded one, or the Cluster of this node;\n"+
		"separate several addresses by commas")
	loads := f.String("loads", "1x1,5x1,5x5", "numbers of `sellers x buyers`, separated by commas")
	ways := f.String("ways", strings.Join(wayNames(), ","), "`names` of the ways to run, separated by commas")
	seconds := f.Float64("seconds", 2, "run time in seconds of each way under each load")
	f.BoolVar(&c.json, "json", false, "also print the figures as JSON, in the last line")
	f.StringVar(&c.svg, "svg", "", "draw the figures into the SVG `file`")

	if err := flags.Parse(f, args, stderr, writeUsage); err != nil {
		return c, err
	}
	if !(*seconds >= 0.1 && *seconds <= 3600) { // written so that NaN fails
		return c, fmt.Errorf("-seconds is %v, must be from 0.1 to 3600", *seconds)
	}
	c.length = time.Duration(*seconds * float64(time.Second))
	if *redis != "" {
		c.redis = strings.Split(*redis, ",")
	}
	for _, addr := range c.redis {
		if !flags.IsAddress(addr, true) {
			return c, fmt.Errorf("-redis is %q, must be host:port, or several separated by commas", *redis)
		}
	}
	var err error
	if c.loads, err = parseLoads(*loads); err != nil {
		return c, err
	}
	c.ways, err = parseWays(*ways)
	return c, err
}

const maxCrowd = 100

func parseLoads(list string) (loads []load, err error) {
	for text := range strings.SplitSeq(list, ",") {
		sellers, buyers, _ := strings.Cut(text, "x")
		var l load
		l.sellers, err = strconv.Atoi(sellers)
		if err == nil {
			l.buyers, err = strconv.Atoi(buyers)
		}
		if err != nil || min(l.sellers, l.buyers) < 1 || max(l.sellers, l.buyers) > maxCrowd {
			return nil, fmt.Errorf("-loads has %q, must be like 5x1, with numbers from 1 to %d", text, maxCrowd)
		}
		if slices.Contains(loads, l) {
			return nil, fmt.Errorf("-loads has %q twice", text)
		}
		loads = append(loads, l)
	}
	return loads, nil
}

func parseWays(list string) (chosen []*way, err error) {
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(wayNames(), name)
		switch {
		case i < 0:
			return nil, fmt.Errorf("-ways has %q, must be among %s", name, strings.Join(wayNames(), ","))
		case slices.Contains(chosen, &ways[i]):
			return nil, fmt.Errorf("-ways has %q twice", name)
		}
		chosen = append(chosen, &ways[i])
	}
	return chosen, nil
}
