package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
)

// The Hooks here make a real server lack something that locks need, by Lua code in front of each script.

// prelude returns a Hook that puts Lua code in front of each script.
func prelude(code string) Hook {
	return changeScripts(func(text string) string {
		if strings.HasPrefix(text, code) { // it is sent again
			return text
		}
		return code + text
	})
}

// changeScripts returns a Hook that changes the texts of scripts.
func changeScripts(change func(text string) string) Hook {
	return func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		for _, cmd := range cmds {
			if cmd.Name() == "eval" {
				args := cmd.Args()
				args[1] = change(args[1].(string))
			}
		}
		return send()
	}
}

// replaced is Lua code that runs other code when a script calls a command. It gets the command's arguments and run, which is
// redis.call or redis.pcall of the server.
const replaced = `local server, redis = redis, setmetatable({}, {__index = redis})
for _, way in ipairs({'call', 'pcall'}) do
  local run = server[way]
  redis[way] = function(name, ...)
    if %s then %s end
    return run(name, ...)
  end
end
`

// Without returns a Hook of a server whose scripts may not run some commands.
func Without(commands ...string) Hook {
	return prelude(fmt.Sprintf(replaced, "string.find(' "+strings.Join(commands, " ")+" ', ' ' .. name .. ' ', 1, true)", "return run('SUBSCRIBE', '-')"))
}

// WithoutUnpack returns a Hook of a server whose Lua has no unpack.
func WithoutUnpack() Hook { return prelude("local unpack\n") }

// WholeSeconds returns a Hook of a server that ends keys on whole seconds, up to half a second early or late.
func WholeSeconds() Hook {
	return prelude(fmt.Sprintf(replaced, "name == 'PEXPIRE'", `
      local key, ms, time = ..., select(2, ...), server.call('TIME')
      return run('EXPIREAT', key, math.floor((time[1] * 1000 + time[2] / 1000 + ms + 499) / 1000))`))
}

// WithoutExpiry returns a Hook of a server whose PEXPIRE does nothing.
func WithoutExpiry() Hook { return prelude(fmt.Sprintf(replaced, "name == 'PEXPIRE'", "return 1")) }

// Refusing returns a Hook of a server or a proxy that answers scripts with an error if their texts contain a word.
func Refusing(word, answer string) Hook {
	refusal := fmt.Sprintf("return {err = %q}", answer)
	return changeScripts(func(text string) string {
		if strings.Contains(text, word) {
			return refusal
		}
		return text
	})
}

// Interleave makes an embedded server run scripts side by side: it gives up the server's lock in the middle of each.
func (s *Server) Interleave() {
	var connections sync.Map // the peers of clients; each command of a script has a new peer
	s.Mini.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
		if command == "HELLO" {
			connections.Store(peer, true)
		}
		if _, ok := connections.Load(peer); ok {
			return false
		}
		switch {
		case slices.Contains([]string{"HGET", "HMGET", "HGETALL", "GET", "HSET"}, command), command == "EXISTS" && len(args) > 1:
			s.Mini.Unlock()
			time.Sleep(time.Millisecond) // other scripts run
			s.Mini.Lock()
		}
		return false
	})
}
