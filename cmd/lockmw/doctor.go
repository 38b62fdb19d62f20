package main

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/go/internal/doctor"
)

// A visit is one run of `lockmw doctor`.
type visit struct {
	*command
	options doctor.Options
	strict  bool
	bridge  []string
}

func (c *command) doctor() *cobra.Command {
	v := &visit{command: c}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether locks will work on this Redis",
		Long: `Checks a Redis before production and prints a verdict and a remedy for each point: the kind of server, whether the address leads
to one server, memory and eviction, persistence, replicas, clocks, each right that locks need, what scripts may do, whether
they are atomic, messages, and the time that scripts, a lock and a hand-over take.

The checks of rights and scripts write scratch keys below the prefix, which expire by themselves, and the speed check takes
locks there. With --read-only it does neither. With --asynq it also tries the rights that asynq needs, on a key of asynq:* and on the
channel asynq:cancel.

With --bridge library:NAME it watches the key of another lock library for three seconds: a warning says that a process
without a bridge takes it. The libraries are redsync, redislock, rueidislock, redisson and setnx. For setnx, NAME is the Redis
key. The flag can be repeated.

Verdicts are ok, advice, unknown, warning and failure. The exit status is 6 after a failure; with --strict also after a
warning.`,
		Example: `  lockmw doctor
  lockmw doctor --read-only --strict
  lockmw doctor --asynq
  lockmw doctor --read-only --bridge redsync:item:7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if v.options.Lease < 100*time.Millisecond || v.options.Lease > 24*time.Hour {
				return usage("--lease: from 100ms to 24h")
			}
			if v.options.Asynq && v.options.ReadOnly {
				return usage("--asynq tries rights on scratch keys: omit --read-only")
			}
			return v.run(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&v.options.Lease, "lease", 30*time.Second, "lease of your locks; must match lockmw.WithLease")
	cmd.Flags().BoolVar(&v.options.ReadOnly, "read-only", false, "write nothing: skip rights, scripts, messages and speed")
	cmd.Flags().BoolVar(&v.options.Asynq, "asynq", false, "also try the rights that asynq needs")
	cmd.Flags().StringArrayVar(&v.bridge, "bridge", nil, "watch the key of another lock library: `library:NAME`")
	cmd.Flags().BoolVar(&v.strict, "strict", false, "fail also after a warning")
	return cmd
}

func (v *visit) run(ctx context.Context) error {
	v.options.Prefix, v.options.SlottedKeys, v.options.Borrowed = v.prefix, v.redis.slotted, true
	for _, text := range v.bridge {
		k, err := doctor.ParseOldKey(text)
		if err != nil {
			return usage("--bridge: %v", err)
		}
		v.options.Bridge = append(v.options.Bridge, k)
	}
	if _, err := v.connect(ctx); err != nil {
		return err
	}
	counts := make(map[doctor.Verdict]int)
	var told error // the exit status says how all checks ended, even if nobody reads what they say
	for f := range doctor.Examine(ctx, v.conn.client, v.options) {
		counts[f.Verdict]++
		told = cmp.Or(told, v.tell(f))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !v.json {
		printf(v.out, "\n%s, %s, %s of advice", count(counts[doctor.Failure], "failure"), count(counts[doctor.Warning], "warning"), count(counts[doctor.Advice], "piece"))
		if n := counts[doctor.Unknown]; n > 0 {
			printf(v.out, ", %d unknown", n)
		}
		printf(v.out, "\n")
	}
	if counts[doctor.Failure] > 0 || v.strict && counts[doctor.Warning] > 0 {
		return &statusError{status: statusUnfit}
	}
	return told
}

// tell prints a finding and flushes it, because the next one may take a second.
func (v *visit) tell(f doctor.Finding) error {
	f.Saw, f.Remedy = v.secrets.hide(f.Saw), v.secrets.hide(f.Remedy)
	return v.line(f, func() { v.print(f) })
}

func (v *visit) print(f doctor.Finding) {
	saw := f.Saw
	if f.Server != "" {
		saw = f.Server + ": " + saw
	}
	const indent = 8 + 1 + 12 + 1
	printf(v.out, "%-8s %-12s %s\n", f.Verdict, f.Check, safe(wrap(clean(saw), columns-indent, indent)))
	if f.Remedy != "" {
		printf(v.out, "%*s→ %s\n", indent, "", safe(wrap(clean(f.Remedy), columns-indent-2, indent+2)))
	}
}
