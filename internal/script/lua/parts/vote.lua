-- Part of acquire.lua, for a lock that is one of several: who has it at most of them has it.
-- Rule 24 of docs/protocol.md.
-- Returns the first of up to `want` tokens that are greater than `last` and not behind the clock, and how many there are.
-- If a token is proposed that is one of these they begin with it: nodes that give the same need not be raised. Nil if there
-- are none.
local function propose_tokens(last, now, want, proposal)
  local first = math.max(last + 1, now)
  if proposal > first and proposal <= now + AHEAD then first = proposal end
  if first + want >= 2 ^ 53 then return nil end
  return first, math.max(1, math.min(want, now + AHEAD - first))
end
