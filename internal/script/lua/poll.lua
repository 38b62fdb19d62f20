-- Reports the state of tickets, keeps their queue alive, and grants a lock or permits that have become free.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 and 6 see acquire.lua
--   ARGV for each ticket: id, lease (ms), number of calls of the process that share it
--   returns {more, fencing counter, length of the queue, {a ticket's answer, …}, and the holders as acquire.lua returns them}
--     more: 1 if a poll must follow immediately because one execution could not do everything, otherwise 0; for permits 3 or 2
--     a ticket's answer: {1, token, tokens, tickets waiting} held · {3, token, slots, tickets waiting} has a permit
--       · {0, position} queued · {-1} gone
--   error UNTRUSTED, after it has only kept the queue alive: see quarantine.lua
-- Rules 5, 7, 22 and 26 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@{kind}
local h = read_hold()
if h and h.err then return h end
if not last_token() then return counter_error() end
local refused = check_types() -- errors of type must come before the first write
if refused then return refused end
call('PEXPIRE', KEYS[2], QUEUE_TTL) -- a full memory does not refuse this write or later ones

-- Returns the position of a ticket in its queue; nil if it has none.
local function position_of(id)
  for _, queue in ipairs(LINES) do
    local ahead = call('ZRANK', queue, id)
    if ahead then return ahead + 1 end
  end
end

local places = {}
for i = 1, #ARGV, 3 do
  places[i] = position_of(ARGV[i])
  local text = places[i] and call('HGET', KEYS[3], ARGV[i])
  local counted = text and with_calls(text, ARGV[i + 2])
  if counted ~= text then call('HSET', KEYS[3], ARGV[i], counted) end
end
if call('EXISTS', KEYS[2]) == 1 then mark_active() end
if not may_grant() then return UNTRUSTED end
local more, room = false, has_room(h)
if room then
  more = grant_next()
  h = read_hold()
end
local answers, waits = {}, false
for i = 1, #ARGV, 3 do
  local answer = extend(h, ARGV[i], ARGV[i + 1])
  if not answer and room and places[i] then places[i] = position_of(ARGV[i]) end -- tickets before it may have left the queue
  waits = waits or not answer and places[i] ~= nil
  answers[#answers + 1] = answer or places[i] and {0, places[i]} or {-1}
end
if waits then report_waiters(h, true) end
return {POLLED + (more and 1 or 0), last_token(), count_waiting(), answers, describe(h)}
