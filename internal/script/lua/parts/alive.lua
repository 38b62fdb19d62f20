-- Part of the scripts that deal with tickets: which processes live. KEYS[6] is a hash with a field for each inbox of a process that
-- waits: when it was last seen (ms), with '+' in front if it was subscribed then, else '-'. '#last' is when anybody beat last, and
-- '#since' is since when somebody has, without a gap. It is written by beat.lua.
-- Rule 7 of docs/protocol.md.
local beats_are_steady

-- Returns whether the process of an inbox is dead that has queued a ticket at a time (us), when it was last seen (ms), and '+' or '-'
-- as above. It was seen when it queued the ticket, too. If nobody was seen lately the server was away, and none is taken for dead
-- before all had time to show that they live.
local function look_alive(inbox, queued)
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
