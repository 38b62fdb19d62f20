-- Shows that tickets are alive, answers what became of them, and grants a lock that has become free.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers
--   ARGV 1 '+' if the inbox is subscribed, else '-'  then for each ticket: its id, its lease (ms),
--        for how many calls of its process it stands
--   returns {more, fencing counter, length of the queue, {a ticket's answer, …}, TTL, time,
--            owner, inbox, token, since, trace of each holder}
--     more: 1 if it is to be run again at once: there was more to do than one run does
--     a ticket's answer: {1, token, tokens, tickets waiting} held · {0, position} queued · {-1} gone
--   or UNTRUSTED, an error, if it has only shown that the tickets are alive: see quarantine.lua
-- Rules 5, 7 and 22 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@limits
--@fence
--@hold
--@readers
--@publish
--@run
--@settle
local h = read_holder()
if h and h.err then return h end
if not last_token() then return counter_error() end
call('ZCARD', KEYS[2]) -- errors of type have to come before the first write
call('ZCARD', KEYS[5])
call('HLEN', KEYS[3])
call('PEXPIRE', KEYS[2], QUEUE_TTL) -- a full memory refuses neither this write nor those after it
local places, alive, one = {}, {}, liveness(ARGV[1], '1')
for i = 2, #ARGV, 3 do
  local ahead = call('ZRANK', KEYS[2], ARGV[i]) or call('ZRANK', KEYS[5], ARGV[i])
  if ahead then
    places[i] = ahead + 1
    alive[#alive + 1] = '@' .. ARGV[i]
    alive[#alive + 1] = ARGV[i + 2] == '1' and one or liveness(ARGV[1], ARGV[i + 2])
  end
end
if #alive > 0 then call('HSET', KEYS[3], unpack(alive)) end
if call('EXISTS', KEYS[2]) == 1 then mark_active() end
if not may_grant() then return UNTRUSTED end
local more, before = false, h
if not h or h.mode == 'read' then
  more = settle()
  h = read_holder()
end
local answers, waits = {}, false
for i = 2, #ARGV, 3 do
  local answer = {-1}
  if extend_if_held(h, ARGV[i], ARGV[i + 1]) then
    answer = h.mode == 'read' and {1, h.token, 1, count_writers()} or {1, h.token, h.tokens, call('ZCARD', KEYS[2])}
  elseif places[i] then
    if not before or before.mode == 'read' then -- readers may have been admitted
      places[i] = (call('ZRANK', KEYS[2], ARGV[i]) or call('ZRANK', KEYS[5], ARGV[i]) or 0) + 1
    end
    answer = {0, places[i]}
    waits = true
  end
  answers[#answers + 1] = answer
end
if h and waits then signal_contention(h, true) end
return {more and 1 or 0, last_token(), count_waiting(), answers, describe_holders(h)}
