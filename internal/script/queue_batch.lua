-- Queues tickets of one process for a lock that somebody has, each as acquire.lua does. Anything else than that is left to
-- acquire.lua, from the first on with which it is not so. Harmless when repeated.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers  then the done mark of each id
--   ARGV 1 lease (ms)  2 inbox  3 as ARGV 5 of acquire.lua  4 mode  then for each: id, owner, trace
--   returns for each an answer of acquire.lua that says that it is queued, or -1: left to acquire.lua
-- Rules 4 and 11 of docs/protocol.md.
local call, fence, n = redis.call, KEYS[4], #KEYS - 5
--@limits
--@publish
local answers = {}
for i = 1, n do answers[i] = -1 end
local there = call('EXISTS', KEYS[1], KEYS[2], KEYS[3], unpack(KEYS, 5))
-- A 'break' leaves all to acquire.lua, and nothing was written.
repeat
  -- There are a holder and no queue, or both and the tickets. So nobody waits to read, and no id is over.
  local others = there == 3
  if there ~= 1 and not others then break end
  --@usual_busy
  local seen, fields, before = string.sub(ARGV[3], 1, 1) .. now_ms, {}, others and call('ZCARD', KEYS[2]) or 0
  local like = ARGV[4] .. ' ' .. ARGV[1] .. ' ' .. string.sub(ARGV[3], 2) .. ' ' .. ARGV[2] .. ' '
  local length = before
  for i = 1, n do
    local id, place = ARGV[3 * i + 2], now + length - before
    -- One that has the lock or a ticket already is left, with all behind it: they keep their order.
    if id == h[1] or call('ZADD', KEYS[2], 'NX', string.format('%.0f', place), id) == 0 then break end -- the first write
    local f = #fields
    fields[f + 1], fields[f + 2] = '@' .. id, seen
    fields[f + 3], fields[f + 4] = id, like .. ARGV[3 * i + 3] .. ' ' .. now .. ' ' .. ARGV[3 * i + 4]
    length = length + 1
    answers[i] = {0, last + 0, length, length, place, ttl, now, h[2] or '', h[4], token + 0, since + 0, h[6] or ''}
  end
  if length == before then break end
  if not others then
    fields[#fields + 1] = '#touched'
    fields[#fields + 1] = now_ms
  end
  call('HSET', KEYS[3], unpack(fields))
  --@usual_queued
until true
return answers
