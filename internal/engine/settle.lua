-- Shared by the scripts that deal with the queue. A ticket has two fields in the tickets hash: under
-- its id what is granted (mode, lease, tokens wanted, inbox, owner, since when it waits, trace), under
-- '@' and its id when it was last seen, with '+' in front if its process was subscribed then. '#touched' is when
-- any ticket was last seen; until '#amnesty' no ticket is taken for dead.
local HOLDER = {'id', 'owner', 'token', 'tokens', 'mode', 'since', 'inbox', 'trace'}

-- Returns the holder's fields, false if the lock is free, or an error reply if the key holds
-- something else. Raises an error if it is not even a hash.
local function holder()
  local h = call('HMGET', KEYS[1], unpack(HOLDER))
  h[4], h[6] = h[4] or '1', h[6] or h[3]
  local token, tokens, since = digits(h[3]), digits(h[4]), digits(h[6])
  if h[1] and h[7] and token and since and (tokens or 0) > 0 then
    return {h[1], h[2] or '', token, tokens, h[5] or 'exclusive', since, h[7], h[8] or ''}
  end
  if call('EXISTS', KEYS[1]) == 0 then return false end
  return {err = 'WRONGTYPE the key holds a hash that is not a lock'}
end

-- Forgets a ticket. It does nothing to keys that are somebody else's.
local function drop(id)
  redis.pcall('ZREM', KEYS[2], id)
  local fields = redis.pcall('HDEL', KEYS[3], id, '@' .. id)
  if type(fields) == 'number' and call('EXISTS', KEYS[2]) == 0 then call('DEL', KEYS[3]) end
end

-- What the tickets hash keeps of a ticket that was seen now.
local function seen(live) return live .. string.format('%.0f', now) end

-- Notes that somebody looks after the queue, and returns until when no ticket is taken for dead: if
-- nobody looked after it for a while the server was away, and those who wait get the time to show that
-- they live.
local function touch()
  local times = call('HMGET', KEYS[3], '#touched', '#amnesty')
  local touched, amnesty = digits(times[1]) or 0, math.min(digits(times[2]) or 0, now + 3 * POLL)
  if math.abs(now - touched) < POLL / 4 then return amnesty end
  if touched > 0 and math.abs(now - touched) > 2 * POLL then
    amnesty = now + 3 * POLL
    call('HSET', KEYS[3], '#amnesty', string.format('%.0f', amnesty))
  end
  call('HSET', KEYS[3], '#touched', string.format('%.0f', now))
  call('PEXPIRE', KEYS[2], QUEUE_TTL)
  call('PEXPIRE', KEYS[3], QUEUE_TTL)
  return amnesty
end

-- Makes a ticket the holder, for as long as its process may take to learn of it.
local function admit(id, record, first, count, waiting)
  local mode, _, _, inbox, owner, _, trace = unpack(record)
  if waiting > 0 then
    call('ZREM', KEYS[2], id)
    call('HDEL', KEYS[3], id, '@' .. id)
  else
    call('DEL', KEYS[2], KEYS[3])
  end
  hold(id, first, count, mode, ACCEPT, inbox, owner, trace, waiting)
end

-- If the lock is free, grants it to the first live ticket in the queue: one that was seen within
-- three polls, and passing over those whose process certainly does not listen. Returns true if its
-- budget ran out with the lock still free, and is to be run again. `queued` is how many tickets there
-- are if it is known, and that the lock is free.
local function settle(queued)
  if not queued then
    if call('EXISTS', KEYS[1]) == 1 then return false end
    queued = redis.pcall('ZCARD', KEYS[2])
  end
  if queued == 0 or type(queued) == 'table' then return false end -- nobody's, or somebody else's
  local amnesty = touch()
  local passed, fallback = 0, nil
  for _ = 1, BUDGET do
    local id = call('ZRANGE', KEYS[2], passed, passed)[1]
    if not id then break end
    local ticket = call('HMGET', KEYS[3], id, '@' .. id)
    local last = digits(string.sub(ticket[2] or '', 2))
    local record = {}
    for field in string.gmatch(ticket[1] or '', '[^ ]+') do record[#record + 1] = field end
    if #record < 6 or not digits(record[3]) or not last or (now - last > 3 * POLL and now >= amnesty) then
      drop(id)
      queued = queued - 1
    else
      record[7] = record[7] or ''
      local first, count = reserve(record[3])
      if not first then return false end
      local heard = redis.pcall('PUBLISH', record[4],
        string.format('grant %s %.0f %d %d %s', id, first, count, queued - 1, KEYS[1]))
      if not (SINGLE and heard == 0 and string.sub(ticket[2], 1, 1) == '+' and now - last > POLL) then
        admit(id, record, first, count, queued - 1)
        return false
      end
      fallback = fallback or {id, record, first, count}
      passed = passed + 1
    end
  end
  if fallback then
    fallback[5] = queued - 1
    admit(unpack(fallback))
    return false
  end
  return queued > 0
end

-- What a caller is told of the holder, and what one that waits asks of it: to stop passing the lock
-- on within its process early.
local function in_the_way(h, waits)
  if not h then return 0, '', '', 0, 0, '' end
  if waits and h[4] > 1 then redis.pcall('PUBLISH', h[7], 'contended ' .. h[1]) end
  return call('PTTL', KEYS[1]), h[2], h[7], h[3], h[6], h[8]
end
