-- Queues tickets of one process for a lock that somebody has, each as acquire.lua does. Anything else than that is left to
-- acquire.lua, from the first on with which it is not so. Harmless when repeated.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers  6 see alive.lua  then the done mark of each id
--   ARGV 1 lease (ms)  2 inbox  3 as ARGV 5 of acquire.lua  4 mode  then for each: id, owner, trace
--   returns for each an answer of acquire.lua that says that it is queued, or -1: left to acquire.lua
-- Rules 4 and 11 of docs/protocol.md.
local call, fence, n = redis.call, KEYS[4], #KEYS - 6
--@limits
--@publish
local answers = {}
for i = 1, n do answers[i] = -1 end
local there = call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[5], unpack(KEYS, 7))
-- A 'break' leaves all to acquire.lua, and nothing was written.
repeat
  -- There are a holder and no queue, or both and the tickets. So nobody waits to read, and no id is over.
  local others = there == 3
  if there ~= 1 and not others then break end
  --+busy
  local first, before = now + 0, others and call('ZCARD', KEYS[2]) or 0
  local like = ARGV[4] .. ' ' .. ARGV[1] .. ' ' .. ARGV[3] .. ' ' .. ARGV[2] .. ' '
  -- One that has the lock or a ticket already is left, with all behind it: they keep their order.
  local places, most = {}, n
  for i = 1, n do
    local id = ARGV[3 * i + 2]
    if id == h[1] then
      most = i - 1
      break
    end
    places[2 * i - 1], places[2 * i] = string.format('%.0f', first + i - 1), id
  end
  if most == 0 then break end
  if call('ZADD', KEYS[2], 'NX', unpack(places)) < most then -- the first write; one has another place already
    local new = 1
    while call('ZSCORE', KEYS[2], places[2 * new]) == places[2 * new - 1] do new = new + 1 end
    for i = new + 1, most do
      if call('ZSCORE', KEYS[2], places[2 * i]) == places[2 * i - 1] then call('ZREM', KEYS[2], places[2 * i]) end
    end
    most = new - 1
    if most == 0 then break end
  end
  local fields, length = {}, before + most
  for i = 1, most do
    local id, f = places[2 * i], 2 * i
    fields[f - 1], fields[f] = id, like .. ARGV[3 * i + 3] .. ' ' .. now .. ' ' .. ARGV[3 * i + 4]
    answers[i] = {0, last + 0, before + i, before + i, first + i - 1, ttl, now, h[2] or '', h[4], token + 0, since + 0, h[6] or ''}
  end
  call('HSET', KEYS[3], unpack(fields))
  --+after_queueing
until true
return answers
