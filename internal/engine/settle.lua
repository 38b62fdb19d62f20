-- Shared by the scripts that deal with the queue. A ticket has two fields in the tickets hash: under
-- its id what is granted (mode, lease, tokens wanted, inbox, owner, since when it waits, trace), under
-- '@' and its id when it was last seen, with '+' in front if its process was subscribed then. '#touched' is when
-- any ticket was last seen; until '#amnesty' no ticket is taken for dead.
local HOLDER = {'id', 'owner', 'token', 'tokens', 'mode', 'since', 'inbox', 'trace'}

-- Returns the holder's fields, false if the lock is free, or an error reply if the key holds
-- something else. Raises an error if it is not even a hash.
local function holder()
  local h = redis.call('HMGET', KEYS[1], unpack(HOLDER))
  if h[1] and h[3] and h[7] then
    h[4], h[8] = tonumber(h[4] or 1), h[8] or ''
    return h
  end
  if redis.call('EXISTS', KEYS[1]) == 0 then return false end
  return {err = 'WRONGTYPE the key holds a hash that is not a lock'}
end

local function drop(id)
  redis.call('ZREM', KEYS[2], id)
  redis.call('HDEL', KEYS[3], id, '@' .. id)
  if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('DEL', KEYS[3]) end
end

local function seen(id, live)
  redis.call('HSET', KEYS[3], '@' .. id, live .. string.format('%.0f', now))
end

-- Notes that somebody looks after the queue. If nobody did for a while the server was away, and those
-- who wait get the time to show that they live.
local function touch()
  local touched = tonumber(redis.call('HGET', KEYS[3], '#touched') or 0)
  if math.abs(now - touched) < POLL / 4 then return end
  if touched > 0 and math.abs(now - touched) > 2 * POLL then
    redis.call('HSET', KEYS[3], '#amnesty', string.format('%.0f', now + 3 * POLL))
  end
  redis.call('HSET', KEYS[3], '#touched', string.format('%.0f', now))
  redis.call('PEXPIRE', KEYS[2], QUEUE_TTL)
  redis.call('PEXPIRE', KEYS[3], QUEUE_TTL)
end

-- Makes a ticket the holder, for as long as its process may take to learn of it.
local function admit(id, record, first, count)
  local mode, _, _, inbox, owner, _, trace = unpack(record)
  drop(id)
  hold(id, first, count, mode, ACCEPT, inbox, owner, trace)
  if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('HSET', KEYS[1], 'wanted', 1) end
end

-- If the lock is free, grants it to the first live ticket in the queue: one that was seen within
-- three polls, and passing over those whose process certainly does not listen. Returns true if its
-- budget ran out with the lock still free, and is to be run again.
local function settle()
  if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('ZCARD', KEYS[2]) == 0 then return false end
  touch()
  local amnesty = tonumber(redis.call('HGET', KEYS[3], '#amnesty') or 0)
  local passed, fallback = 0, nil
  for _ = 1, BUDGET do
    local id = redis.call('ZRANGE', KEYS[2], passed, passed)[1]
    if not id then break end
    local ticket = redis.call('HMGET', KEYS[3], id, '@' .. id)
    local last = tonumber(string.sub(ticket[2] or '', 2))
    local record = {}
    for field in string.gmatch(ticket[1] or '', '[^ ]+') do record[#record + 1] = field end
    if #record < 6 or not last or (now - last > 3 * POLL and now >= amnesty) then
      drop(id)
    else
      record[7] = record[7] or ''
      local first, count = reserve(record[3])
      if not first then return false end
      local waiting = redis.call('ZCARD', KEYS[2]) - 1
      local heard = redis.pcall('PUBLISH', record[4],
        string.format('grant %s %.0f %d %d %s', id, first, count, waiting, KEYS[1]))
      if not (SINGLE and heard == 0 and string.sub(ticket[2], 1, 1) == '+' and now - last > POLL) then
        admit(id, record, first, count)
        return false
      end
      fallback = fallback or {id, record, first, count}
      passed = passed + 1
    end
  end
  if fallback then
    admit(unpack(fallback))
    return false
  end
  return redis.call('EXISTS', KEYS[2]) == 1
end

-- What a caller is told of the holder, and what one that waits asks of it: to stop passing the lock
-- on within its process early.
local function in_the_way(h, waits)
  if not h then return 0, '', '', 0, 0, '' end
  if waits and h[4] > 1 then redis.pcall('PUBLISH', h[7], 'contended ' .. h[1]) end
  return redis.call('PTTL', KEYS[1]), h[2], h[7], tonumber(h[3]), tonumber(h[6]), h[8]
end
