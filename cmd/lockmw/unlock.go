package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/user"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

// A release is a run of `lockmw unlock`.
type release struct {
	*command
	key, id string
	yes     bool
	by      string
}

func (c *command) unlock() *cobra.Command {
	u := &release{command: c}
	cmd := &cobra.Command{
		Use:   "unlock KEY --holder ID",
		Short: "Release exactly one hold, after a question",
		Long: `Releases the hold with that ID, as "lockmw show" prints it, and no other. It shows the holder and asks first.

The lock goes to the next in the queue. The holder is told that it has lost the lock: immediately if its process listens, otherwise at
its next renewal. Its code may still be at work until then, and longer if it hangs: make sure that it is not.

The release is recorded with its operator, for "lockmw history" and the page.

If the lock has no hold of that ID, or it has ended meanwhile, nothing is released, and the exit status is 4.`,
		Example: `  lockmw unlock order:1001
  lockmw unlock order:1001 --holder 1795358697406599-d9e6085e`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			u.key = args[0]
			return u.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&u.id, "holder", "", "ID of the hold, as lockmw show prints it")
	cmd.Flags().BoolVar(&u.yes, "yes", false, "do not ask: for scripts")
	cmd.Flags().StringVar(&u.by, "by", "", "who releases it, for the history (default: the user who runs this)")
	return cmd
}

func (u *release) run(ctx context.Context) error {
	inspector, err := u.connect(ctx)
	if err != nil {
		return err
	}
	status, err := inspector.Get(ctx, u.key)
	if err != nil {
		return err
	}
	r := recordOf(status, u.conn.now())
	found := find(status, u.id)
	switch {
	case len(status.Holders) == 0 && u.id == "":
		return &statusError{statusNothing, say("nobody holds %s under the prefix %s", u.key, u.prefix)}
	case u.id == "":
		return usage("say which hold: --holder ID\n%s", u.holders(&r))
	case len(found) == 0:
		return u.none(&r)
	case len(found) > 1:
		return usage("%d holds have the id %s: this cannot tell them apart", len(found), u.id)
	}
	if !u.yes {
		if err := u.confirm(ctx, &r); err != nil {
			return err
		}
	}
	if err := inspector.ForceUnlock(ctx, u.key, found[0]); errors.Is(err, lockmw.ErrNotHeld) {
		now, getErr := inspector.Get(ctx, u.key)
		if getErr != nil {
			return getErr
		}
		r = recordOf(now, u.conn.now())
		return u.ended(&r)
	} else if err != nil {
		return err
	}
	u.record(ctx, inspector, lockevents.Taken{Key: u.key, Mode: status.Mode, Holder: found[0]})
	if u.json {
		return u.printJSON(struct {
			Key      string       `json:"key"`
			Released holderRecord `json:"released"`
		}{u.key, holderOf(found[0], u.conn.now())})
	}
	printf(u.out, "released: %s no longer has %s\n", who(found[0].Label, found[0].Process), u.key)
	if status, err = inspector.Get(ctx, u.key); err == nil && len(status.Holders) > 0 { // it is done, whatever that says
		r = recordOf(status, u.conn.now())
		printf(u.out, "it is held by:\n%s\n", u.holders(&r))
	}
	return nil
}

// record notes in the history who has released the hold. That it cannot does not change what was done.
func (u *release) record(ctx context.Context, inspector *lockmw.Inspector, taken lockevents.Taken) {
	by := u.by
	if by == "" {
		by = "command"
		if me, err := user.Current(); err == nil && me.Username != "" {
			by = me.Username
		}
	}
	// The programs that record events say how long the stream is.
	events := lockevents.New(inspector, lockevents.WithLength(lockevents.MaxLength))
	if err := events.ForceUnlocked(context.WithoutCancel(ctx), by, taken); err != nil {
		printf(u.io.err, "lockmw: the release is not in the history: %s\n", u.secrets.hide(err.Error()))
	}
}

// holders lists who could be released.
func (u *release) holders(r *lockRecord) safe {
	var b strings.Builder
	for i, h := range r.Holders {
		if i > 0 {
			printf(&b, "\n")
		}
		printf(&b, "  --holder %s  %s, for %s", asArgument(h.ID), who(h.Label, h.Process), ago(h.Held))
	}
	return safe(b.String())
}

// isID reports whether text has the form of an ID that idOf makes.
func isID(text string) bool {
	token, owner, found := strings.Cut(text, "-")
	_, err := strconv.ParseInt(token, 10, 64)
	return found && err == nil && owner != "" && utf8.RuneCountInString(owner) <= ownerInID
}

// none says that the lock has no hold of that ID, and who holds it. A text that is no ID is a mistake of the command line.
func (u *release) none(r *lockRecord) error {
	status, hint := statusGone, "If lockmw show printed it, it has ended."
	if !isID(u.id) {
		status, hint = statusUsage, "lockmw show prints the IDs."
	}
	return &statusError{status, say("there is no such hold of %s: %s; nothing was released. %s %s", u.key, u.id, safe(hint), u.heldBy(r))}
}

// ended says that the hold that was seen has ended, and who holds the lock now.
func (u *release) ended(r *lockRecord) error {
	const text = "nothing was released: the hold %s of %s has ended, by its holder, its lease or another operator. %s"
	return &statusError{statusGone, say(text, u.id, u.key, u.heldBy(r))}
}

func (u *release) heldBy(r *lockRecord) safe {
	if len(r.Holders) == 0 {
		return "Nobody holds it now."
	}
	return say("It is held by:\n%s", u.holders(r))
}

// confirm shows the holder and asks.
func (u *release) confirm(ctx context.Context, r *lockRecord) error {
	if f, ok := u.io.in.(*os.File); ok && !term.IsTerminal(f.Fd()) {
		return usage("there is no terminal to ask at: say --yes")
	}
	out := u.out
	if u.json { // what is printed there is for a program
		out = bufio.NewWriter(u.io.err)
	}
	if err := printLock(out, r); err != nil {
		return err
	}
	printf(out, "\nRelease %s? Its holder may still be at work. Type yes: ", u.id)
	if err := out.Flush(); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() { // it ends with the process, if nobody answers
		line, _ := bufio.NewReader(u.io.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case a := <-answer:
		if a == "yes" || a == "y" {
			return nil
		}
		return &statusError{statusUnconfirmed, "not confirmed: nothing was released"}
	case <-ctx.Done():
		printf(u.io.err, "\n")
		return &statusError{statusUnconfirmed, "not confirmed: nothing was released"}
	}
}
