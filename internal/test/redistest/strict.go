package redistest

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// strictLua is put in front of a script. It refuses keys that the script does not declare, with the words of Dragonfly.
const strictLua = `
local declared, keyless, many = {}, {TIME = 1, INFO = 1, PUBLISH = 1, SPUBLISH = 1}, {EXISTS = 1, DEL = 1}
for _, key in ipairs(KEYS) do declared[key] = true end
local function undeclared(name, ...)
  if keyless[name] then return nil end
  for i = 1, many[name] and select('#', ...) or 1 do
    local key = select(i, ...)
    if not declared[key] then return 'script tried accessing undeclared key, key: ' .. tostring(key) end
  end
end
local server = redis
local redis = setmetatable({
  call = function(...)
    local refused = undeclared(...)
    if refused then error(refused, 0) end
    return server.call(...)
  end,
  pcall = function(...)
    local refused = undeclared(...)
    if refused then return {err = 'ERR ' .. refused} end
    return server.pcall(...)
  end,
}, {__index = server})
`

// RefuseUndeclaredKeys makes the server refuse scripts of rdb that use a key which they do not declare, as Dragonfly does by
// default. rdb must not have sent the scripts before.
func RefuseUndeclaredKeys(rdb *redis.Client) { rdb.AddHook(strict{}) }

type strict struct{}

// DialHook implements redis.Hook.
func (strict) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (strict) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		made := strictly(ctx, cmd)
		err := next(ctx, made)
		answer(cmd, made)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (strict) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		made := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			made[i] = strictly(ctx, cmd)
		}
		err := next(ctx, made)
		for i, cmd := range cmds {
			answer(cmd, made[i])
		}
		return err
	}
}

// strictly returns the command with the strict text of its script; other commands stay as they are. EVALSHA finds no script.
func strictly(ctx context.Context, cmd redis.Cmder) redis.Cmder {
	args := slices.Clone(cmd.Args())
	if !strings.EqualFold(cmd.Name(), "eval") {
		return cmd
	}
	args[1] = strictLua + args[1].(string)
	return redis.NewCmd(ctx, args...)
}

// answer gives cmd the answer of the command that was sent for it. cmd may be a *redis.Cmd in a type of its own.
func answer(cmd, made redis.Cmder) {
	if cmd == made {
		return
	}
	cmd.(interface{ SetVal(any) }).SetVal(made.(*redis.Cmd).Val())
	cmd.SetErr(made.Err())
}
