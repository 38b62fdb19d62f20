package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/lockmw/go/lockmw"
)

// A list is one run of `lockmw ls`.
type list struct {
	*command
	filter
	sort  string
	limit int
	share float64
	table *lockTable
}

func (c *command) list() *cobra.Command {
	l := &list{command: c}
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List locks: holders, waiters, longest waits",
		Long: `Lists all locks that have a holder, a waiter or a kept place (WithPlace), the longest wait first.

A sorted list prints the first 1,000 locks and counts the others. With --sort none, the default for --json, all locks are
printed as the scan finds them. The scan takes at most the part --share of the server's time.

On a terminal, keys that do not fit are cut off. A pipe, as in lockmw ls | cat, and --json get whole keys.`,
		Example: `  lockmw ls --waited
  lockmw ls --kind order --waiting-longer 5s
  lockmw ls --json | jq -r .key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.json && !cmd.Flags().Changed("sort") {
				l.sort = unsorted
			}
			if l.sort == unsorted && !cmd.Flags().Changed("limit") {
				l.limit = 0
			}
			return l.run(cmd.Context())
		},
	}
	l.filter.flags(cmd)
	cmd.Flags().StringVar(&l.sort, "sort", "wait", "sort by wait, waiters, held or key; none: in the order of the scan")
	completes(cmd, "sort", "wait", "waiters", "held", "key", unsorted)
	cmd.Flags().IntVar(&l.limit, "limit", 1000, "maximum number of locks to print; 0: all")
	cmd.Flags().Float64Var(&l.share, "share", 0.5, "part of the server's time that the scan may take, more than 0 and at most 1")
	return cmd
}

func (l *list) run(ctx context.Context) error {
	compare, err := orderNamed(l.sort)
	if err != nil {
		return err
	}
	if l.limit < 0 {
		return usage("--limit: at least 0")
	}
	if err := l.filter.prepare(); err != nil {
		return err
	}
	inspector, err := l.connect(ctx)
	if err != nil {
		return err
	}
	l.table = l.listing("KEY", "MODE", "HOLDER", "HELD", "TTL", "WAIT", "LONGEST")
	found := 0
	var failed error
	kept := &best[*lockRecord]{compare: compare, most: l.limit}
	progress, done := l.progress(func(p lockmw.ScanProgress) string { return fmt.Sprintf("%d locks", p.Locks) })
	for s, err := range inspector.All(ctx, lockmw.WithShare(l.share), lockmw.WithScanProgress(progress)) {
		if errors.Is(err, lockmw.ErrInvalidOption) {
			done()
			return usage("--share: more than 0 and at most 1")
		}
		if err != nil && s.Key == "" {
			failed = err
			break
		}
		r := recordOf(s, l.conn.now())
		if err != nil {
			r.Error = l.secrets.hide(err.Error())
		}
		if !l.filter.match(&r) {
			continue
		}
		found++
		if compare != nil {
			kept.add(&r)
			continue
		}
		if failed = l.print(&r); failed != nil || found == l.limit {
			break
		}
	}
	done()
	for _, r := range kept.sorted() {
		if err := l.print(r); err != nil {
			return err
		}
	}
	l.table.flush()
	if err := errors.Join(l.out.Flush(), failed); err != nil {
		return err
	}
	if kept.left > 0 {
		printf(l.io.err, "%d more are not shown: --limit 0 or --sort none shows all\n", kept.left)
	}
	if found == 0 {
		return l.nothing(ctx, inspector, "no lock matches")
	}
	return nil
}

// print prints one lock. An error means that nobody reads the output.
func (l *list) print(r *lockRecord) error {
	if l.json {
		return l.printJSON(r)
	}
	holder, held, ttl := "-", "-", "-"
	if len(r.Holders) > 0 {
		h := r.Holders[0]
		holder, held, ttl = who(h.Label, h.Process), ago(h.Held), ago(h.TTL)
		if l.table.width > 0 {
			holder = short(holder, 50)
		}
		if n := len(r.Holders); n > 1 {
			holder = fmt.Sprintf("%s (+%d)", holder, n-1)
		}
		if h.Lingers {
			holder += " (unlocked)"
		}
	}
	mode := r.Mode
	switch {
	case r.Error != "":
		mode, holder = "?", r.Error
	case mode == "" && len(r.Kept) > 0 && r.Waiting == 0:
		mode = "kept"
	case mode == "":
		mode = "free"
	}
	l.table.add(r.Key, short(mode, 12), holder, held, ttl, strconv.Itoa(r.Waiting), ago(r.longest()))
	return l.out.Flush() // what the table has printed
}

// progress returns two functions for a terminal: show prints the progress of a scan after the text that of returns, and wipe
// clears that line. Without a terminal both do nothing.
func (c *command) progress(of func(lockmw.ScanProgress) string) (show func(lockmw.ScanProgress), wipe func()) {
	f, ok := c.io.err.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) {
		return func(lockmw.ScanProgress) {}, func() {}
	}
	began, last := time.Now(), time.Now()
	shown := false
	show = func(p lockmw.ScanProgress) {
		if time.Since(began) > time.Second && time.Since(last) > 200*time.Millisecond {
			last, shown = time.Now(), true
			printf(f, "\r%s, %.0f %% of the keys…%s", of(p), 100*p.Part, safe(ansi.EraseLineRight))
		}
	}
	return show, func() {
		if shown {
			printf(f, "\r%s", safe(ansi.EraseLineRight))
		}
	}
}

// nothing returns the error for an empty result: text, with the other prefixes that have locks.
func (c *command) nothing(ctx context.Context, inspector *lockmw.Inspector, text safe) error {
	text = say("%s under the prefix %s", text, c.prefix)
	prefixes, err := inspector.Prefixes(ctx)
	used := slices.Contains(prefixes, c.prefix)
	var others []string
	for _, p := range prefixes {
		if p != c.prefix {
			others = append(others, asArgument(p))
		}
	}
	switch {
	case err != nil: // the user may not run SCAN; text is true without the prefixes
	case !used && len(others) > 0:
		text = say("nobody has used the prefix %s; there are locks with --prefix %s", c.prefix, strings.Join(others, ", "))
	case !used:
		text = say("nobody has used the prefix %s, nor any other, on this server", c.prefix)
	case len(others) > 0:
		text = say("%s; other prefixes are %s", text, strings.Join(others, ", "))
	}
	return &statusError{statusNothing, text}
}
