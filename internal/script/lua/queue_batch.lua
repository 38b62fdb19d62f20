-- Queues tickets of one process for a lock that is held, each as acquire.lua queues it. From the first ticket on
-- that cannot be queued this way, all are left to acquire.lua. A repeated execution does no harm.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers  6 see alive.lua  then the done mark of each id
--   ARGV 1 lease (ms)  2 inbox  3 as ARGV 5 of acquire.lua  4 mode  then for each: id, owner, trace
--   returns for each ticket: the answer "queued" of acquire.lua, or -1 if it is left to acquire.lua
-- Rules 4 and 11 of docs/protocol.md.
local call, fence, n = redis.call, KEYS[4], #KEYS - 6
--@limits
--@publish
local answers = {}
for i = 1, n do answers[i] = -1 end
local existing = call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[5], unpack(KEYS, 7))
-- A 'break' leaves all tickets to acquire.lua; nothing was written.
repeat
  -- Either only the holder exists, or the holder, the queue and the tickets. So no reader waits, and no id has a done mark.
  local others = existing == 3
  if existing ~= 1 and not others then break end
  --+busy
  local first, before = now + 0, others and call('ZCARD', KEYS[2]) or 0
  local prefix = ARGV[4] .. ' ' .. ARGV[1] .. ' ' .. ARGV[3] .. ' ' .. ARGV[2] .. ' '
  -- The first id that already has the lock or a ticket ends the batch, so that the tickets behind it keep their order.
  local places, count = {}, 0
  while count < n and ARGV[3 * count + 5] ~= h[1] do
    places[2 * count + 1], places[2 * count + 2] = string.format('%.0f', first + count), ARGV[3 * count + 5]
    count = count + 1
  end
  if count == 0 then break end
  if call('ZADD', KEYS[2], 'NX', unpack(places)) < count then -- the first write; one of the ids already has another place
    local new = 1
    while call('ZSCORE', KEYS[2], places[2 * new]) == places[2 * new - 1] do new = new + 1 end
    for i = new + 1, count do
      if call('ZSCORE', KEYS[2], places[2 * i]) == places[2 * i - 1] then call('ZREM', KEYS[2], places[2 * i]) end
    end
    count = new - 1
    if count == 0 then break end
  end
  local fields, length = {}, before + count
  for i = 1, count do
    local id, f = places[2 * i], 2 * i
    fields[f - 1], fields[f] = id, prefix .. ARGV[3 * i + 3] .. ' ' .. now .. ' ' .. ARGV[3 * i + 4]
    answers[i] = {0, last + 0, before + i, before + i, first + i - 1, ttl, now, h[2] or '', h[4], token + 0, since + 0, h[6] or ''}
  end
  call('HSET', KEYS[3], unpack(fields))
  --+after_queueing
until true
return answers
