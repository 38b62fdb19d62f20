package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/go/cmd/lockmw/internal/verify"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
)

// A proof is one run of `lockmw verify`.
type proof struct {
	*command
	options  verify.Options
	failover string        // "": no fail-over; otherwise a duration, or onEnter
	within   time.Duration // that duration
	report   string
	yes      bool
}

// onEnter is the value of --failover without a duration.
const onEnter = "enter"

func (c *command) verify() *cobra.Command {
	v := &proof{command: c}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Try the promises of locks on this Redis, under faults",
		Long: `Runs several processes that take locks on this Redis for a while. They are killed and stopped, and their connections are cut,
silenced and delayed. The judges of lockmw's own tests judge every call: whether two held a lock together, whether tokens rose, and
so on. At the end it prints what was tried, what was seen, and how long a lock, a hand-over and WAIT take.

It disturbs only its own processes and connections, never the server. All keys are below a new prefix, and are removed at the end,
also after Ctrl-C. It asks before it begins.

With --failover it holds locks while you trigger a fail-over, and shows what the servers lost. The user needs the right to INFO:
without it, no fail-over is noticed.

With --with every second process runs another lockmw program, such as the release that you use now: during a roll-out, the old and
the new version take the same locks.

The exit status is 0 if every promise was kept, and 1 if one was broken, if Redis cannot be reached, or if --failover notices no
fail-over.`,
		Example: `  lockmw verify --for 30s --yes
  lockmw verify --failover --report verify.md
  lockmw verify --failover 30s --replicas 1 --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.check(args); err != nil {
				return err
			}
			return v.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.DurationVar(&v.options.For, "for", 2*time.Minute, "how long to take locks")
	f.IntVar(&v.options.Processes, "processes", 4, "number of processes that take locks")
	f.DurationVar(&v.options.Lease, "lease", 2*time.Second, "lease of the locks")
	f.Float64Var(&v.options.Share, "share", 0.01, "part of the server's time that it may take, more than 0 and at most 1")
	f.IntVar(&v.options.Replicas, "replicas", 0, "use lockmw.WithReplicas with this number of replicas")
	f.StringVar(&v.failover, "failover", "", "let you trigger a fail-over: wait for Enter, or for a duration such as 30s")
	f.Lookup("failover").NoOptDefVal = onEnter
	f.StringVar(&v.report, "report", "", "write a report in Markdown to this file")
	f.StringVar(&v.options.With, "with", "", "program of another lockmw release, for every second process")
	f.BoolVar(&v.yes, "yes", false, "do not ask for confirmation (for scripts)")
	return cmd
}

// check checks the flags. An argument is the duration of --failover.
func (v *proof) check(args []string) error {
	if len(args) == 1 {
		if v.failover != onEnter {
			return usage("verify has no argument")
		}
		v.failover = args[0]
	}
	if v.failover != "" && v.failover != onEnter {
		var err error
		if v.within, err = time.ParseDuration(v.failover); err != nil || v.within <= 0 || v.within > time.Hour {
			return usage("--failover: nothing, or a duration up to 1h")
		}
	}
	o := &v.options
	if o.With != "" {
		path, err := exec.LookPath(o.With)
		if err != nil {
			return usage("--with: %v", err)
		}
		o.With = path
	}
	switch {
	case o.For < time.Second || o.For > 24*time.Hour:
		return usage("--for: from 1s to 24h")
	case o.Processes < 2 || o.Processes > 32:
		return usage("--processes: from 2 to 32")
	case o.Lease < 400*time.Millisecond || o.Lease > 30*time.Second:
		return usage("--lease: from 400ms to 30s")
	case !(o.Share > 0 && o.Share <= 1):
		return usage("--share: more than 0 and at most 1")
	case o.Replicas < 0 || o.Replicas > 100:
		return usage("--replicas: from 0 to 100")
	case o.Replicas > 0 && v.redis.slotted:
		return usage("--replicas: a proxy (--slotted-keys) may send WAIT to another server than the lock's")
	}
	return nil
}

func (v *proof) run(ctx context.Context) error {
	if _, err := v.connect(ctx); err != nil {
		return err
	}
	o := v.options
	// The access rights of locks include these keys, and these channels.
	o.Prefix = v.prefix + ":inbox:verify-" + strings.ToLower(rand.Text()[:8])
	if _, err := lockmw.NewInspector(v.conn.client, v.layout(o.Prefix)...); errors.Is(err, lockmw.ErrInvalidOption) {
		return usage("--prefix: %v", err)
	}
	out := v.forOperator()
	printf(out, "verify writes at most %s keys, below %s, and removes them.\n", verify.Thousands(verify.MaxKeys), o.Prefix)
	printf(out, "%d processes take locks for %s, in at most %v %% of the server's time.\n", o.Processes, shortly(o.For), o.Share*100)
	printf(out, "They are paused, killed and cut off; the server and other programs are not.\n")
	if !v.yes {
		err := v.ask(ctx, "nothing was written", func(out io.Writer) { printf(out, "Continue? Type yes: ") })
		if err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if err := v.tryReport(); err != nil {
		return err
	}
	address, err := v.forWorkers()
	if err != nil {
		return err
	}
	o.Client, o.Address, o.Connect, o.Sentinel, o.SlottedKeys = v.conn.client, address, connectWorker, v.conn.place.sentinel, v.redis.slotted
	if v.failover != "" {
		o.Failover = v.awaitFailover
	}
	result, err := verify.Run(ctx, o)
	switch {
	case err == nil:
	case !result.Broken():
		return err
	default:
		printf(v.io.err, "lockmw: %s\n", paragraph(v.secrets.hide(err.Error())))
	}
	return errors.Join(v.tell(result), v.write(result), v.status(ctx, result))
}

// status returns the exit status of a verdict, which was printed.
func (v *proof) status(ctx context.Context, r *verify.Result) error {
	if r.Broken() || r.NoFailover && !r.Interrupted {
		return &statusError{status: statusFailed}
	}
	return ctx.Err()
}

// awaitFailover tells the operator to trigger a fail-over.
func (v *proof) awaitFailover(ctx context.Context) error {
	out := v.forOperator()
	if v.within == 0 {
		printf(out, "All processes hold locks. Trigger the fail-over now, then press Enter: ")
	} else {
		printf(out, "All processes hold locks. Trigger the fail-over within %s.\n", shortly(v.within))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if v.within == 0 {
		v.readLine(ctx)
	} else {
		pause.For(ctx, v.within)
	}
	return ctx.Err()
}

// tell prints the result.
func (v *proof) tell(r *verify.Result) error {
	for i := range r.Findings {
		r.Findings[i].First = v.secrets.hide(r.Findings[i].First)
	}
	if v.json {
		verdict, _, _ := strings.Cut(r.Verdict(), ":")
		return v.printJSON(struct {
			Verdict string `json:"verdict"` // holds, broken, interrupted or incomplete
			*verify.Result
		}{verdict, r})
	}
	printf(v.out, "\n%s\n\n", subject(r))
	t := newTable(v.out, "PROMISE", "TRIED", "SEEN")
	for _, p := range r.Promises {
		t.add(p.Promise, p.Tried, p.Saw)
	}
	t.flush()
	printf(v.out, "\n")
	for _, line := range remarks(r) {
		printf(v.out, "%-7s %s\n", line[0], line[1])
	}
	printf(v.out, "\n%s\n", r.Verdict())
	for _, f := range r.Findings {
		printf(v.out, "  %s: %s\n", string(f.Symptom), f.First)
	}
	return nil
}

// subject says what was verified.
func subject(r *verify.Result) string {
	text := fmt.Sprintf("%s, %s: %d processes for %s", r.Server.Software, r.Server.Topology, r.Processes, shortly(r.Ended.Sub(r.Started).Round(time.Second)))
	if r.With != "" {
		text += ", every second one with " + r.With
	}
	return text
}

// remarks are the lines below the table, each with its name.
func remarks(r *verify.Result) (lines [][2]string) {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		faults = append(faults, fmt.Sprintf("%d × %s", r.Faults[name], name))
	}
	if r.NoPauses {
		faults = append(faults, "paused: not possible on this system")
	}
	cost := func(name string, c verify.Cost) string {
		if c.Count == 0 {
			return name + " not measured"
		}
		return fmt.Sprintf("%s %.2f ms (99 %%: %.2f ms)", name, c.Median, c.P99)
	}
	lines = [][2]string{
		{"faults", strings.Join(faults, ", ")},
		{"costs", strings.Join([]string{cost("free lock", r.Costs.Pair), cost("hand-over", r.Costs.HandOver), cost("WAIT", r.Costs.Wait)}, ", ")},
		{"load", fmt.Sprintf("%s scripts, %.2f %% of the server's time", verify.Thousands(r.Scripts), r.Share*100)},
	}
	if r.Ballast > 0 {
		text := fmt.Sprintf("%d of %d locks were lost; the server was slow or silent for %s", r.BallastLost, r.Ballast, shortly(r.Outage))
		if r.Failovers == 0 {
			text = "none was noticed"
		}
		lines = append(lines, [2]string{"switch", text})
	}
	return lines
}

// tryReport fails if the report cannot be written at the end.
func (v *proof) tryReport() error {
	if v.report == "" {
		return nil
	}
	f, err := os.OpenFile(v.report, os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // the report is for others
	if err != nil {
		return usage("--report: %v", err)
	}
	return f.Close()
}

// write writes the report, if one is wanted.
func (v *proof) write(r *verify.Result) error {
	if v.report == "" {
		return nil
	}
	var b strings.Builder
	printf(&b, "# lockmw verify\n\n- Verdict: **%s**\n- Server: %s\n- From %s to %s\n", r.Verdict(), subject(r), r.Started.Format(time.RFC3339), r.Ended.Format(time.RFC3339))
	for _, line := range remarks(r) {
		printf(&b, "- %s%s: %s\n", strings.ToUpper(line[0][:1]), line[0][1:], line[1])
	}
	printf(&b, "- Program: %s\n\n| promise | tried | seen |\n|---|---|---|\n", versionText())
	for _, p := range r.Promises {
		printf(&b, "| %s | %s | %s |\n", p.Promise, p.Tried, p.Saw)
	}
	for _, f := range r.Findings {
		printf(&b, "\n%s, %d times. The first case: `%s`\n", string(f.Symptom), f.Times, f.First)
	}
	return os.WriteFile(v.report, []byte(b.String()), 0o644) //nolint:gosec // the report is for others
}
