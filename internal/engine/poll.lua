-- Shows that tickets are alive, asks what became of them, and grants a lock that has become free.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter
--   ARGV 1 '+' if the inbox is subscribed, else '-'  then for each ticket: its id, its lease (ms)
--   returns {more, fencing counter, {a ticket's answer, …}, TTL, owner, inbox, token, since, trace}
--     more: 1 if it is to be run again at once, because more tickets are dead than one run removes
--     a ticket's answer: {1, first token, tokens, others waiting} held · {0, position} queued · {-1} gone
local fence = KEYS[4]
--@hold
--@settle
local h = holder()
if h and h.err then return h end
if not counter() then return STRANGE end
call('ZCARD', KEYS[2]) -- a type error belongs before the first write
call('HLEN', KEYS[3])
call('PEXPIRE', KEYS[2], QUEUE_TTL) -- never refused, and after it nothing else is
for i = 2, #ARGV, 2 do
  if call('ZSCORE', KEYS[2], ARGV[i]) then call('HSET', KEYS[3], '@' .. ARGV[i], seen(ARGV[1])) end
end
if call('EXISTS', KEYS[2]) == 1 then touch() end
local more = false
if not h then
  more = settle()
  h = holder()
end
local answers = {}
for i = 2, #ARGV, 2 do
  local id, lease = ARGV[i], ARGV[i + 1]
  local ahead = call('ZRANK', KEYS[2], id)
  if h and h[1] == id then
    if call('PTTL', KEYS[1]) < tonumber(lease) then call('PEXPIRE', KEYS[1], lease) end
    answers[#answers + 1] = {1, h[3], h[4], call('ZCARD', KEYS[2])}
  elseif ahead then
    answers[#answers + 1] = {0, ahead + 1}
  else
    answers[#answers + 1] = {-1}
  end
end
return {more and 1 or 0, counter(), answers, in_the_way(h, #ARGV > 1)}
