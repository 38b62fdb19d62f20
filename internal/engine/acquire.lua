-- Takes the lock, or queues a ticket for it. Harmless when repeated: what the id has already is
-- answered again, and an id that is over is refused.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 done mark of the id
--        6 done mark of the former id, if it is to be marked as over
--   ARGV 1 id  2 lease (ms)  3 inbox  4 owner
--        5 '+' if the inbox is subscribed, else '-', and how many tokens are wanted if it is queued;
--          0: it is not to be queued
--        or, in addition: 6 tokens wanted  7 mode  8 trace
--        or, in addition: 9 former id: a hold to give up or a ticket that got lost
--        10 its place in the queue or ''  11 how long it is marked as over (ms)
--   returns token  held, with one token and nobody waiting
--           {1, first token, tokens, others waiting}  held
--           {0, fencing counter, position, place, TTL, owner, inbox, token, since, trace}  queued; busy
--           {-1}  refused: the id is over      {2}  run it again: more dead tickets than one run removes
local call, fence = redis.call, KEYS[4]
if not ARGV[6] and call('EXISTS', KEYS[1], KEYS[2], KEYS[5]) == 0 then
  -- The common case is worth its own lines: what hold.lua does for a lock without extras, if the
  -- counter lies behind the clock. Digits stay strings, as converting them takes longer than the rest.
  local time, last = call('TIME'), redis.pcall('GET', fence)
  local token = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  if not last or (#last == #token and last < token and not string.find(last, '%D')) then
    call('SET', fence, token)
    call('HSET', KEYS[1], 'id', ARGV[1], 'owner', ARGV[4], 'token', token, 'inbox', ARGV[3])
    call('PEXPIRE', KEYS[1], ARGV[2])
    return token
  end
end
--@hold
--@settle
local id, former = ARGV[1], ARGV[9]
local tokens, mode, trace = ARGV[6] or 1, ARGV[7] or 'exclusive', ARGV[8] or ''
local queued = string.sub(ARGV[5], 2)

-- Takes the lock, which is free with nobody waiting.
local function take()
  local first, count = reserve(tokens)
  hold(id, first, count, mode, ARGV[2], ARGV[3], ARGV[4], trace, 0)
  return {1, first, count, 0}
end

local h = holder()
if h and h.err then return h end
-- Errors of type belong before the first write.
local place = call('ZSCORE', KEYS[2], id)
call('HLEN', KEYS[3])
if not reserve(1) then return STRANGE end

if former then
  if h and h[1] == former then
    call('DEL', KEYS[1])
    h = false
  else
    drop(former)
  end
  if KEYS[6] then call('SET', KEYS[6], 1, 'PX', ARGV[11]) end
end
if call('EXISTS', KEYS[5]) == 1 then
  settle()
  return {-1}
end
if not h and call('EXISTS', KEYS[2]) == 0 then return take() end

local queues = queued ~= '0' and not (h and h[1] == id)
if queues then
  local ticket = {'@' .. id, seen(string.sub(ARGV[5], 1, 1))}
  if not place then
    place = ARGV[10] or ''
    if place == '' then -- behind all who wait, and all who did and may come back to their place
      place = string.format('%.0f', math.max((call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2] or 0) + 1, us))
    end
    call('ZADD', KEYS[2], place, id)
    ticket[3] = id
    ticket[4] = table.concat({mode, ARGV[2], queued, ARGV[3], ARGV[4], string.format('%.0f', us), trace}, ' ')
  end
  call('HSET', KEYS[3], unpack(ticket))
  touch()
  if h then call('HSET', KEYS[1], 'wanted', 1) end
end
if not h then
  if settle() then return {2} end
  h = holder()
  if not h and call('EXISTS', KEYS[2]) == 0 then return take() end -- all who waited were dead
end
if h and h[1] == id then
  if call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then call('PEXPIRE', KEYS[1], ARGV[2]) end
  return {1, h[3], h[4], call('ZCARD', KEYS[2])}
end
place = math.max(0, math.min(tonumber(place or 0) or 0, MAX)) -- somebody else's scores may be infinite
local position = 0
if queues then position = (call('ZRANK', KEYS[2], id) or 0) + 1 end
return {0, counter(), position, place, in_the_way(h, queues)}
