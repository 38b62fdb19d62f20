package transport

import (
	"cmp"
	"fmt"
	"slices"
)

// An unfitness is a reason why a server cannot hold locks.
type unfitness struct{ text, cause, remedy string }

// unfit are the reasons that errors of scripts show. The first one whose text is in an error counts.
var unfit = []unfitness{
	{"Lua scripting support disabled", "it runs no scripts", "start Garnet with --lua and --lua-transaction-mode"},
	{undeclaredKey, "scripts may not use keys that they do not declare", "start Dragonfly with --default_lua_flags=allow-undeclared-keys"},
	{"bad lua script for redis cluster", "a proxy rejects the texts of scripts", "connect without it, or set script_check_enable to 0 there"},
	{"'unpack'", "scripts may not call unpack", ""},
	{"not allowed after non deterministic commands", "scripts may not write after TIME", "use Redis 6 or later, or Valkey"},
	{"not allowed from script", "scripts may not run a command that locks need", ""},
	{"Unknown Redis command called from", "scripts lack a command that locks need", ""},
}

// undeclaredKey is in the errors of Dragonfly, whose default refuses such scripts.
const undeclaredKey = "undeclared key"

// IsUndeclared reports whether the server refused a script because it uses keys that it does not declare.
func IsUndeclared(err error) bool { return isReplyWith(err, undeclaredKey) }

// unfitFor returns the reason that an error shows; nil if there is none.
func unfitFor(err error) *unfitness {
	i := slices.IndexFunc(unfit, func(u unfitness) bool { return isReplyWith(err, u.text) })
	if i < 0 {
		return nil
	}
	return &unfit[i]
}

// explainUnfit puts the reason in front of an error that shows one.
func explainUnfit(err error) error {
	if u := unfitFor(err); u != nil {
		return fmt.Errorf("the server cannot hold locks: %s; %s: %w", u.cause, cmp.Or(u.remedy, "run lockmw doctor"), err)
	}
	return err
}
