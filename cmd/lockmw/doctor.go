package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/go/internal/doctor"
)

// A visit is a run of `lockmw doctor`.
type visit struct {
	*command
	lease            time.Duration
	readOnly, strict bool
	asynq            bool
}

func (c *command) doctor() *cobra.Command {
	v := &visit{command: c}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine whether locks will work on this Redis",
		Long: `Examines what a careful engineer looks at before production, each with a verdict and a remedy: what the server is and whether
one server is behind the address, memory and eviction, persistence, replicas, clocks, each right that locks need, messages, and
how long scripts, a lock and a hand-over take.

Rights are tried on scratch keys below the prefix, which end by themselves, and locks are taken there: --read-only does neither.
With --asynq, it also tries the rights that asynq needs, on a key of asynq:* and on the channel asynq:cancel.

Verdicts are ok, advice, unknown, warning and failure. The exit status is 6 after a failure, and with --strict after a
warning, too.`,
		Example: `  lockmw doctor
  lockmw doctor --read-only --strict
  lockmw doctor --asynq`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if v.lease < 100*time.Millisecond || v.lease > 24*time.Hour {
				return usage("--lease: from 100ms to 24h")
			}
			if v.asynq && v.readOnly {
				return usage("--asynq tries rights on scratch keys: leave out --read-only")
			}
			return v.run(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&v.lease, "lease", 30*time.Second, "of the locks: what WithLease says")
	cmd.Flags().BoolVar(&v.readOnly, "read-only", false, "write nothing: without rights, messages and speed")
	cmd.Flags().BoolVar(&v.asynq, "asynq", false, "also try the rights that asynq needs")
	cmd.Flags().BoolVar(&v.strict, "strict", false, "fail after a warning, too")
	return cmd
}

func (v *visit) run(ctx context.Context) error {
	if _, err := v.connect(ctx); err != nil {
		return err
	}
	options := doctor.Options{Prefix: v.prefix, Lease: v.lease, Borrowed: true, Asynq: v.asynq, ReadOnly: v.readOnly}
	counts := make(map[doctor.Verdict]int)
	for f := range doctor.Examine(ctx, v.conn.client, options) {
		counts[f.Verdict]++
		if err := v.tell(f); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !v.json {
		printf(v.out, "\n%s, %s, %s\n", count(counts[doctor.Failure], "failure"), count(counts[doctor.Warning], "warning"), advice(counts[doctor.Advice]))
	}
	if counts[doctor.Failure] > 0 || v.strict && counts[doctor.Warning] > 0 {
		return &statusError{status: statusUnfit}
	}
	return nil
}

// advice has no plural.
func advice(n int) string {
	if n == 1 {
		return "1 piece of advice"
	}
	return fmt.Sprint(n, " pieces of advice")
}

// tell prints a finding at once: some take a second.
func (v *visit) tell(f doctor.Finding) error {
	f.Saw, f.Remedy = v.secrets.hide(f.Saw), v.secrets.hide(f.Remedy)
	if v.json {
		if err := v.printJSON(f); err != nil {
			return err
		}
		return v.out.Flush()
	}
	saw := f.Saw
	if f.Server != "" {
		saw = f.Server + ": " + saw
	}
	const indent = 8 + 1 + 12 + 1
	printf(v.out, "%-8s %-12s %s\n", f.Verdict, f.Check, safe(wrap(clean(saw), columns-indent, indent)))
	if f.Remedy != "" {
		printf(v.out, "%*s→ %s\n", indent, "", safe(wrap(clean(f.Remedy), columns-indent-2, indent+2)))
	}
	return v.out.Flush()
}
