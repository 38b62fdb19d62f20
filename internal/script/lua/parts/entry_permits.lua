-- Part of acquire.lua: takes a permit, or puts a ticket into its queue.
local n, w = tonumber(ARGV[9]), tonumber(ARGV[7])

-- Takes the permit if no ticket waits and its weight is free, and returns the caller's answer.
local function take()
  if p.used + w > n or call('EXISTS', KEYS[2]) == 1 then return nil end
  local q = {
    ends = now_ms + ARGV[2], since = digits(now_us), token = digits(reserve_tokens(1)), n = n, w = w, inbox = ARGV[3], owner = ARGV[4],
    trace = ARGV[8],
  }
  add_permit(ARGV[1], q)
  return {3, tonumber(q.token), q.slots, call('ZCARD', KEYS[2])}
end

-- Puts the ticket into its queue.
local function enqueue(place) call('ZADD', KEYS[2], place, ARGV[1]) end

-- Returns the text of the ticket: see queue.lua. The weight takes the place of the tokens wanted, and n follows the time since
-- when the ticket waits.
local function ticket_text()
  local secret = string.sub(ARGV[5], 2) -- after a colon, if there is one
  return table.concat({'permit', ARGV[2], ARGV[7] .. secret, ARGV[3], ARGV[4], digits(now_us), ARGV[9], ARGV[8]}, ' ')
end

local notify_holders = report_waiters
