-- Shows that tickets for permits are alive, answers what became of them, and grants permits that have become free.
--   KEYS 1 holder  2 queue of permits  3 tickets for permits  4 fencing counter
--   ARGV 1 '+' if the inbox is subscribed, else '-'  then for each ticket: its id, its lease (ms)
--   returns {more, fencing counter, length of the queue, {a ticket's answer, …}, ms until the first permit may end, time,
--            the field of each holder: see permits.lua}
--     more: 3 if it is to be run again at once, because there was more to do than one run does, else 2
--     a ticket's answer: {3, token, slots, tickets waiting} held · {0, position} queued · {-1} gone
--   or UNTRUSTED, an error, if it has only shown that the tickets are alive: see quarantine.lua
-- Rules 7, 22 and 26 of docs/protocol.md.
--@quarantine
local call, fence = redis.call, KEYS[4]
--@limits
--@permits_shown
--@publish
--@fence
--@permits
local p = read_permits()
if p.err then return p end
if not last_token() then return counter_error() end
call('ZCARD', KEYS[2]) -- errors of type have to come before the first write
call('HLEN', KEYS[3])
call('PEXPIRE', KEYS[2], QUEUE_TTL) -- a full memory refuses neither this write nor those after it
local alive = {}
for i = 2, #ARGV, 2 do
  if call('ZSCORE', KEYS[2], ARGV[i]) then
    alive[#alive + 1] = '@' .. ARGV[i]
    alive[#alive + 1] = liveness(ARGV[1], '1')
  end
end
if #alive > 0 then call('HSET', KEYS[3], unpack(alive)) end
if not may_grant() then return UNTRUSTED end
local more = reap_permits(p)
more = settle_permits(p) or more
local answers = {}
for i = 2, #ARGV, 2 do
  local q = extend_permit(p, ARGV[i], tonumber(ARGV[i + 1]))
  local position = call('ZRANK', KEYS[2], ARGV[i])
  if q then
    answers[#answers + 1] = {3, tonumber(q.token), q.slots, call('ZCARD', KEYS[2])}
  else
    answers[#answers + 1] = position and {0, position + 1} or {-1}
  end
end
tidy_permits(p)
return {more and 3 or 2, last_token(), call('ZCARD', KEYS[2]), answers, show_permits(p.next, now_ms, digits(now_us))}
