-- Part of the scripts that deal with ticks of a job (rule 20 of docs/protocol.md).
-- Returns what is noted of a tick, 'begun' or 'ran', and the tokens of the one or two holds that have begun it; nil if
-- nothing is noted, false if the key is not one of ours.
local function read_tick(key)
  local said = redis.pcall('GET', key)
  if not said then return nil end
  if type(said) ~= 'string' then return false end
  local what, first, second = string.match(said, '^(%l+) (%d+) ?(%d*)$')
  if what ~= 'begun' and what ~= 'ran' then return false end
  return what, first, second
end
local NOT_A_TICK = {err = 'WRONGTYPE the tick is not one of ours'}
