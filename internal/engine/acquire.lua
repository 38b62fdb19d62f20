-- Takes the lock, or queues a ticket for it. Harmless when repeated: what the id has already is
-- answered again, and an id that is over is refused.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 done mark of the id  6 … of the former id
--   ARGV 1 id  2 lease (ms)  3 tokens wanted  4 inbox  5 owner  6 trace  7 mode
--        8 'wait' or 'try'  9 '+' if the inbox is subscribed, else '-'  10 tokens wanted if queued
--        11 former id: a hold to give up or a ticket that got lost; '' if none  12 its place or ''
--        13 how long the former id is marked as over (ms), 0: not at all, as in release.lua
--   returns {1, first token, tokens, others waiting}  held
--           {0, fencing counter, position, place, TTL, owner, inbox, token, since, trace}  queued; busy
--           {-1}  refused: the id is over      {2}  run it again: more dead tickets than one run removes
--@hold
if ARGV[11] == '' and redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[5]) == 0 then
  local first, count = reserve(ARGV[3])
  if not first then return redis.error_reply('WRONGTYPE the fencing counter is not a number') end
  hold(ARGV[1], first, count, ARGV[7], ARGV[2], ARGV[4], ARGV[5], ARGV[6])
  return {1, first, count, 0}
end
--@settle
local id, former = ARGV[1], ARGV[11]
local h = holder()
if h and h.err then return h end
local place = redis.call('ZSCORE', KEYS[2], id)
redis.call('HLEN', KEYS[3]) -- a type error belongs before the first write
if not reserve(1) then return redis.error_reply('WRONGTYPE the fencing counter is not a number') end

if former ~= '' then
  if h and h[1] == former then
    redis.call('DEL', KEYS[1])
    h = false
  else
    drop(former)
  end
  if ARGV[13] ~= '0' then redis.call('SET', KEYS[6], 1, 'PX', ARGV[13]) end
end
if redis.call('EXISTS', KEYS[5]) == 1 then
  settle()
  return {-1}
end

if not h and redis.call('EXISTS', KEYS[2]) == 0 then
  local first, count = reserve(ARGV[3])
  hold(id, first, count, ARGV[7], ARGV[2], ARGV[4], ARGV[5], ARGV[6])
  return {1, first, count, 0}
end

local queues = ARGV[8] == 'wait' and not (h and h[1] == id)
if queues then
  if not place then
    place = ARGV[12]
    if place == '' then place = (redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2] or 0) + 1 end
    redis.call('ZADD', KEYS[2], place, id)
    redis.call('HSET', KEYS[3], id, table.concat({ARGV[7], ARGV[2], ARGV[10], ARGV[4], ARGV[5],
      string.format('%.0f', us), ARGV[6]}, ' '))
  end
  seen(id, ARGV[9])
  touch()
  if h then redis.call('HSET', KEYS[1], 'wanted', 1) end
end
if settle() then return {2} end
h = holder()
if not h and redis.call('EXISTS', KEYS[2]) == 0 then -- all who waited were dead
  local first, count = reserve(ARGV[3])
  hold(id, first, count, ARGV[7], ARGV[2], ARGV[4], ARGV[5], ARGV[6])
  return {1, first, count, 0}
end
if h and h[1] == id then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return {1, tonumber(h[3]), h[4], redis.call('ZCARD', KEYS[2])}
end
local position = 0
if queues then position = (redis.call('ZRANK', KEYS[2], id) or 0) + 1 end
return {0, tonumber(redis.call('GET', KEYS[4]) or 0), position, tonumber(place or 0), in_the_way(h, queues)}
