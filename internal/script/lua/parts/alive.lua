-- Part of the scripts that deal with tickets: which processes are alive. KEYS[6] is a hash with a field for each inbox of a
-- waiting process: when the process was last seen (ms), after '+' if it was subscribed then, otherwise after '-'. '#last' is
-- the time of the last beat of any process. '#since' is the time since when there have been beats without a gap. beat.lua
-- writes the hash.
-- Rule 7 of docs/protocol.md.
local beats_are_steady

-- Returns whether the process of an inbox is dead, when it was last seen (ms), and its '+' or '-'. `queued` is when it queued
-- its ticket (us), and counts as a sign of life. Without recent beats of any process the server may have been unreachable. Then
-- no process counts as dead until all have had time to show that they are alive.
local function is_dead(inbox, queued)
  local since = math.floor((to_number(queued) or 0) / 1000)
  if now_ms >= since and now_ms - since <= RECENT then return false, since end
  local f = redis.pcall('HMGET', KEYS[6], inbox, '#last', '#since')
  local sign, beat = string.match(f[1] or '', '^([+-])(%d+)$')
  local seen = math.max(to_number(beat) or 0, since <= now_ms and since or 0)
  if beats_are_steady == nil then
    local last, began = to_number(f[2]), to_number(f[3])
    beats_are_steady = last ~= nil and began ~= nil and math.abs(now_ms - last) < BEAT_GAP and now_ms - began > DEAD
  end
  return beats_are_steady and math.abs(now_ms - seen) > DEAD, seen, sign
end
