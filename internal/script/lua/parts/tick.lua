-- Part of the scripts that deal with ticks of a job (rule 20 of docs/protocol.md).
-- Returns the state in the note of a tick, 'begun' or 'ran', and the tokens of the one or two holds that have begun it; nil if
-- there is no note, false if the key does not contain one.
local function read_tick(key)
  local note = redis.pcall('GET', key)
  if not note then return nil end
  if type(note) ~= 'string' then return false end
  local state, first, second = string.match(note, '^(%l+) (%d+) ?(%d*)$')
  if state ~= 'begun' and state ~= 'ran' then return false end
  return state, first, second
end
local NOT_A_TICK = {err = 'WRONGTYPE the key does not contain the note of a tick'}
