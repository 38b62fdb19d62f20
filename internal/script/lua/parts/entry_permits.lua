-- Part of acquire.lua: how a permit is taken, and a ticket gets into its queue.
local n, w = tonumber(ARGV[9]), tonumber(ARGV[7])

-- Takes the permit if nobody waits and its weight is free, and returns what the caller is answered.
local function take()
  if p.used + w > n or call('EXISTS', KEYS[2]) == 1 then return nil end
  local q = {
    ends = now_ms + ARGV[2], since = digits(now_us), token = digits(reserve_tokens(1)), n = n, w = w, inbox = ARGV[3], owner = ARGV[4],
    trace = ARGV[8],
  }
  add_permit(ARGV[1], q)
  return {3, tonumber(q.token), q.slots, call('ZCARD', KEYS[2])}
end

-- Enters the ticket into its queue.
local function enter(place) call('ZADD', KEYS[2], place, ARGV[1]) end

-- Returns what the ticket says: see queue.lua. Where a ticket for a lock has the tokens wanted it has its weight, and n
-- follows the time since when it waits.
local function ticket_text()
  local secret = string.sub(ARGV[5], 2) -- with a colon in front, if there is one
  return table.concat({'permit', ARGV[2], ARGV[7] .. secret, ARGV[3], ARGV[4], digits(now_us), ARGV[9], ARGV[8]}, ' ')
end

local tell_holders = tell_others
