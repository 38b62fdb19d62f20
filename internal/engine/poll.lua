-- Shows that tickets are alive, asks what became of them, and grants a lock that has become free.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter
--   ARGV 1 '+' if the inbox is subscribed, else '-'  then for each ticket: its id, its lease (ms)
--   returns {more, fencing counter, {a ticket's answer, …}, TTL, owner, inbox, token, since, trace}
--     more: 1 if it is to be run again at once, because more tickets are dead than one run removes
--     a ticket's answer: {1, first token, tokens, others waiting} held · {0, position} queued · {-1} gone
--@hold
--@settle
local h = holder()
if h and h.err then return h end
redis.call('ZCARD', KEYS[2]) -- a type error belongs before the first write
redis.call('HLEN', KEYS[3])
redis.call('PEXPIRE', KEYS[2], QUEUE_TTL) -- never refused, and after it nothing else is
local queued = {}
for i = 2, #ARGV, 2 do
  queued[i] = redis.call('ZSCORE', KEYS[2], ARGV[i])
  if queued[i] then seen(ARGV[i], ARGV[1]) end
end
if redis.call('EXISTS', KEYS[2]) == 1 then touch() end
local more = settle()
h = holder()
local answers = {}
for i = 2, #ARGV, 2 do
  local id, lease = ARGV[i], ARGV[i + 1]
  if h and h[1] == id then
    if redis.call('PTTL', KEYS[1]) < tonumber(lease) then redis.call('PEXPIRE', KEYS[1], lease) end
    answers[#answers + 1] = {1, tonumber(h[3]), h[4], redis.call('ZCARD', KEYS[2])}
  elseif queued[i] then
    answers[#answers + 1] = {0, (redis.call('ZRANK', KEYS[2], id) or 0) + 1}
  else
    answers[#answers + 1] = {-1}
  end
end
return {more and 1 or 0, tonumber(redis.pcall('GET', KEYS[4]) or 0), answers, in_the_way(h, #ARGV > 1)}
