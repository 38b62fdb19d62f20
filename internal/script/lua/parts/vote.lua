-- Part of the scripts that take a lock over several nodes.
-- Rule 24 of docs/protocol.md.
-- Returns the first of up to `want` tokens that are greater than `last` and not behind the clock, and their number; nil if
-- there are none. They begin with the proposed token if it is one of these: nodes that give the same token need not be raised.
local function propose_tokens(last, now, want, proposal)
  local first = math.max(last + 1, now)
  if proposal > first and proposal <= now + AHEAD then first = proposal end
  if first + want >= 2 ^ 53 then return nil end
  return first, math.max(1, math.min(want, now + AHEAD - first))
end
