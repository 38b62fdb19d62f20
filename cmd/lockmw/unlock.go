package main

import (
	"context"
	"errors"
	"io"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

// A release is one run of `lockmw unlock`.
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
		Short: "Release exactly one hold, after confirmation",
		Long: `Releases the hold with this ID, as "lockmw show" prints it, and no other. It shows the holder and asks for confirmation.

The lock goes to the next waiter. The holder's context ends: immediately if its process listens for messages, otherwise at the
next renewal. Its code may run until then, and longer if it hangs. Make sure that it has stopped.

The release is recorded with the operator's name, for "lockmw history" and the inspector.

If the hold does not exist or has ended in the meantime, the command releases nothing and its exit status is 4.`,
		Example: `  lockmw unlock order:1001
  lockmw unlock order:1001 --holder 1795358697406599-d9e6085e`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			u.key = args[0]
			if err := checkKey(u.key); err != nil {
				return err
			}
			return u.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&u.id, "holder", "", "ID of the hold, as printed by lockmw show")
	cmd.Flags().BoolVar(&u.yes, "yes", false, "do not ask for confirmation (for scripts)")
	cmd.Flags().StringVar(&u.by, "by", "", "name of the operator, for the history (default: the current user)")
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
	found := slices.DeleteFunc(slices.Clone(status.Holders), func(h lockmw.Holder) bool { return idOf(h) != u.id })
	switch {
	case len(status.Holders) == 0 && u.id == "":
		return &statusError{statusNothing, say("nobody holds %s under the prefix %s", u.key, u.prefix)}
	case u.id == "":
		return usage("choose the hold with --holder ID:\n%s", u.holders(&r))
	case len(found) == 0:
		return u.none(&r)
	case len(found) > 1:
		return usage("%d holds have the ID %s: nothing was released", len(found), u.id)
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
	printf(u.out, "released: %s no longer holds %s\n", who(found[0].Label, found[0].Process), u.key)
	if status, err = inspector.Get(ctx, u.key); err == nil && len(status.Holders) > 0 { // the release is done, even if Get fails
		r = recordOf(status, u.conn.now())
		printf(u.out, "now held by:\n%s\n", u.holders(&r))
	}
	return nil
}

// record writes the release and its operator to the history. A failure is only printed: the release is done.
func (u *release) record(ctx context.Context, inspector *lockmw.Inspector, taken lockevents.Taken) {
	by := u.by
	if by == "" {
		by = "command"
		if me, err := user.Current(); err == nil && me.Username != "" {
			by = me.Username
		}
	}
	// The programs that record events decide the length of the stream; the maximum never shortens it.
	events := lockevents.New(inspector, lockevents.WithLength(lockevents.MaxLength))
	if err := events.ForceUnlocked(context.WithoutCancel(ctx), by, taken); err != nil {
		printf(u.io.err, "lockmw: the release is not in the history: %s\n", u.secrets.hide(err.Error()))
	}
}

// holders lists the holds that could be released.
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

// isID reports whether text has the form of an ID of idOf.
func isID(text string) bool {
	token, owner, found := strings.Cut(text, "-")
	_, err := strconv.ParseInt(token, 10, 64)
	return found && err == nil && owner != "" && utf8.RuneCountInString(owner) <= ownerInID
}

// none returns the error for an ID that no hold of the lock has, with the current holders. A malformed ID is a usage error.
func (u *release) none(r *lockRecord) error {
	status, hint := statusGone, "If lockmw show printed this ID, the hold has ended."
	if !isID(u.id) {
		status, hint = statusUsage, "lockmw show prints the IDs."
	}
	return &statusError{status, say("%s has no hold %s; nothing was released. %s %s", u.key, u.id, safe(hint), u.heldBy(r))}
}

// ended returns the error for a hold that ended before the release, with the current holders.
func (u *release) ended(r *lockRecord) error {
	const text = "nothing was released: hold %s of %s has ended already: by its holder, its lease or another operator. %s"
	return &statusError{statusGone, say(text, u.id, u.key, u.heldBy(r))}
}

func (u *release) heldBy(r *lockRecord) safe {
	if len(r.Holders) == 0 {
		return "Nobody holds it now."
	}
	return say("Now held by:\n%s", u.holders(r))
}

// confirm shows the holder and asks for confirmation.
func (u *release) confirm(ctx context.Context, r *lockRecord) error {
	return u.ask(ctx, "nothing was released", func(out io.Writer) {
		printLock(out, r)
		printf(out, "\nRelease %s? Its holder's code may still be running. Type yes: ", u.id)
	})
}
