--@limits
--@fence
--@publish
--@grant_batch
-- The functions for locks of the scripts that serve locks and permits. permits.lua defines the same functions for permits:
--   LINES all queues, LINE the caller's queue, BUSY and POLLED the first numbers of answers
--   read_hold() has_room(h) each_hold(h, f) end_hold(id, linger) extend(h, id, lease) describe(h)
--   check_types(h) remove_ticket(…) count_waiting() mark_active() report_waiters(h, reads) grant_next(after)
-- The parts entry_locks.lua and entry_permits.lua define more for acquire.lua: take(h, place) enqueue(place) ticket_text()
-- notify_holders(h, queued)
local LINES, LINE, BUSY, POLLED = {KEYS[2], KEYS[5]}, KEYS[2], 0, 0
--@queue
--@readers
-- Tickets that wait to read have their own queue. In the main queue READERS_TICKET stands for all of them, at the place of the
-- first one. Readers up to the place '#admit' are admitted even if a writer waits.
-- Rules 5, 6, 8, 9 and 12 of docs/protocol.md.
local HOLDER = {'id', 'owner', 'token', 'tokens', 'mode', 'since', 'inbox', 'trace', 'next', 'wanted'}
local READERS_TICKET = '#readers'

-- Returns the holder, or the fields that all readers share; false if the lock is free; an error reply if the key is of another
-- type or kind.
local function read_hold()
  local f = redis.pcall('HMGET', KEYS[1], unpack(HOLDER))
  if f.err then return f end
  local h = {
    id = f[1], owner = f[2] or '', token = to_number(f[3]), tokens = to_number(f[4] or '1'), mode = f[5] or 'exclusive',
    since = to_number(f[6] or f[3]), inbox = f[7], trace = f[8] or '', wanted = f[10] == '1',
  }
  if is_read_hold({f[5], f[3], f[9]}) then return reap_readers() and h end
  if h.mode ~= 'read' and h.id and h.inbox and h.token and h.since and (h.tokens or 0) > 0 then return h end
  if call('EXISTS', KEYS[1]) == 0 then return false end
  if h.mode == 'permit' then return {err = 'WRONGTYPE the key has permits of a semaphore, and this is a lock'} end
  return {err = 'WRONGTYPE the key holds a hash that is not a lock'}
end

-- Raises an error if a key is of another type than a lock's.
local function check_types()
  call('ZCARD', KEYS[2])
  call('ZCARD', KEYS[5])
  call('HLEN', KEYS[3])
end

-- Returns whether the lock may be granted to anyone in its present state.
local function has_room(h) return not h or h.mode == 'read' end

-- Ends the hold of `id`. With `linger` (ms) the key stays taken for that long, without a holder. Returns whether the id had a
-- hold and, if its end frees the lock, the mode in which the lock was held: 'write' or 'read'.
local function end_hold(id, linger)
  local h = redis.pcall('HMGET', KEYS[1], 'id', 'mode') -- an error if the key is of another type
  local stays = linger and linger ~= '0'
  if h[1] == id and stays then
    call('PEXPIRE', KEYS[1], linger)
    call('HSET', KEYS[1], 'id', '-', 'tokens', 1) -- no hold has this id: the key only expires
    call('HDEL', KEYS[1], 'waiters') -- these calls get a ticket
    -- Redis 7.0 reads its clock again to set an expiry, and deletes a key whose time has passed by then, for example after 1
    -- ms. The write after that makes a key without an expiry.
    if call('PTTL', KEYS[1]) == -1 then call('DEL', KEYS[1]) end
    return true
  elseif h[1] == id then
    call('DEL', KEYS[1])
    return true, 'write'
  elseif h[2] ~= 'read' then
    return false
  end
  local text = stays and call('HGET', KEYS[1], 'reader:' .. id)
  if call('HDEL', KEYS[1], 'reader:' .. id) == 0 then return false end
  if text then
    local inbox, owner, trace = string.match(text, '^%d+ %d+ ([^ ]*) ([^ ]*) ?([^ ]*)$')
    add_reader('-' .. id, call('HGET', KEYS[1], 'token'), linger, inbox or '-', '-' .. (owner or ''), trace or '')
  end
  return true, not reap_readers() and 'read' or nil
end

-- Calls f(id, token, owner, inbox) for each hold.
local function each_hold(h, f)
  if not h then return end
  if h.mode ~= 'read' then return f(h.id, h.token, h.owner, h.inbox) end
  each_reader(nil, function(id, _, inbox, owner) f(id, h.token, owner, inbox) end)
end

-- Moves READERS_TICKET to the place of the first ticket that waits to read, or removes it if there is none.
local function sync_readers_ticket()
  local first = call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')
  if first[1] then
    try_write('ZADD', KEYS[2], first[2], READERS_TICKET)
  else
    try_write('ZREM', KEYS[2], READERS_TICKET)
    try_write('HDEL', KEYS[3], '#admit')
  end
end

-- Returns how many tickets wait to write.
local function count_writers()
  return call('ZCARD', KEYS[2]) - (call('ZSCORE', KEYS[2], READERS_TICKET) and 1 or 0)
end

-- Extends the hold of `id` to at least `lease` (ms), and writes even if the hold is longer (rule 21 of docs/protocol.md).
-- Returns the answer for a caller that holds the lock; nil if the id has no hold.
local function extend(h, id, lease)
  if h and h.mode == 'read' then
    return extend_reader(id, tonumber(lease)) and {1, h.token, 1, count_writers()} or nil
  elseif h and h.id == id then
    call('PEXPIRE', KEYS[1], math.max(call('PTTL', KEYS[1]) + 1, lease)) -- see renew.lua
    return {1, h.token, h.tokens, call('ZCARD', KEYS[2])}
  end
end

local mark_active = keep_queue

-- Returns how many tickets wait.
local function count_waiting() return count_writers() + call('ZCARD', KEYS[5]) end

-- Removes tickets. It does not touch keys of another type.
local function remove_ticket(...)
  local read = try_write('ZREM', KEYS[5], ...)
  if type(read) == 'number' and read > 0 then sync_readers_ticket() end
  drop_ticket(...)
end

-- Returns the message of a grant to these ids. `number` is greater than all earlier numbers.
local function grant_message(ids, number, token, count, others)
  return string.format('grant %s %.0f %.0f %d %d %s', table.concat(ids, ','), number, token, count, others, KEYS[1])
end

-- Makes `id` the holder.
local function set_holder(id, first, count, mode, lease, inbox, owner, trace, waiting, calls)
  local key, token, since, waits = KEYS[1], digits(first), (first < now_us or first > now_us + SINCE) and digits(now_us), waiting > 0
  call('SET', fence, digits(first + count - 1))
  --+holder_fields
  --+holder
end

-- Makes a ticket the holder, for the accept window.
local function grant_to(t, first, count, others)
  drop_ticket(t.id)
  set_holder(t.id, first, count, t.mode, ACCEPT, t.inbox, t.owner, t.trace, others, t.calls)
end

-- Admits the tickets that wait to read, up to a place if one is given. Returns whether another execution must admit the rest;
-- nil if it admitted none. It skips tickets whose processes certainly do not listen, unless `anyway` is set.
local function admit_readers(place, anyway)
  local number = reserve_tokens(1)
  if not number then return nil end
  local token = to_number(call('HGET', KEYS[1], 'token')) or last_token()
  if token == 0 then token = number end
  call('SET', fence, digits(number))
  local others, admitted, gone = count_writers(), 0, 0
  local ids = call('ZRANGEBYSCORE', KEYS[5], '-inf', place or '+inf', 'LIMIT', 0, MAX_ADMITTED)
  for _, id in ipairs(ids) do
    local t = live_ticket(id)
    if not t then
      gone = gone + 1
      remove_ticket(id)
    else
      if anyway then t.may_skip = false end
      local function write()
        call('ZREM', KEYS[5], id)
        call('HDEL', KEYS[3], id)
        add_reader(id, token, ACCEPT, t.inbox, t.owner, t.trace)
      end
      if grant(t, grant_message({id}, number, token, 1, others), write) then admitted = admitted + 1 end
    end
  end
  sync_readers_ticket()
  if admitted > 0 and others > 0 then set_field(try_write, 'wanted', 1) end
  if call('EXISTS', KEYS[2]) == 0 then
    call('DEL', KEYS[3])
  elseif #ids == MAX_ADMITTED and admitted + gone > 0 then
    local last = place or digits(tonumber(call('ZRANGE', KEYS[5], -1, -1, 'WITHSCORES')[2] or 0))
    if call('ZCOUNT', KEYS[5], '-inf', last) > 0 then
      call('HSET', KEYS[3], '#admit', last)
      return true
    end
  end
  call('HDEL', KEYS[3], '#admit')
  if admitted > 0 then return false end
end

-- Grants the free lock to the first live ticket that waits to write, and returns true. It skips tickets whose processes
-- certainly do not listen. If there are no others, it returns a function that grants to the first skipped one, or false if
-- there is none. It returns nil if it has removed as many dead tickets as one execution may. With `only_check`, for a lock that
-- readers hold, it grants nothing and returns true if a live writer waits.
local function grant_to_writer(queued, only_check)
  local passed, fallback = 0, false
  for _ = 1, MAX_REAPED do
    local id = call('ZRANGE', KEYS[2], passed, passed)[1]
    if not id then return fallback end
    local t = id ~= READERS_TICKET and live_ticket(id)
    if id == READERS_TICKET then
      passed = passed + 1
    elseif not t then
      remove_ticket(id)
      queued = queued - 1
    elseif only_check then
      return true
    else
      local batch = {}
      if t.text and passed == 0 and call('EXISTS', KEYS[5]) == 0 then -- no ticket was skipped, and no reader waits
        local second = call('ZRANGE', KEYS[2], 1, 1)[1]
        batch = find_grant_batch(t.text, second, second and call('HGET', KEYS[3], second))
      end
      local first, count = reserve_tokens(t.tokens + #batch)
      if not first then return true end
      for i = #batch, count, -1 do batch[i] = nil end -- there is no token for these
      local function write() grant_to(t, first, count, queued - 1) end
      if grant(t, grant_message({id, unpack(batch)}, first, first, count, queued - 1), write) then return true end
      fallback = fallback or function() grant_to(t, first, count, call('ZCARD', KEYS[2]) - 1) end
      passed = passed + 1
    end
  end
  return fallback or nil
end

-- Grants a free lock to live tickets. `after` is the mode of the hold that has ended. After 'write' it admits the tickets that
-- wait to read; after 'read' it grants to one that waits to write. If `after` is unknown, the head of the queue decides. If one
-- side has no ticket, the other side has its turn. If readers hold the lock and no writer waits, it admits the tickets that
-- wait to read. Returns true if a poll must follow because one execution could not do everything.
local function grant_next(after)
  if not may_grant() then return false end -- polls grant when the server is trusted
  local reading = false
  if call('EXISTS', KEYS[1]) == 1 then
    if not is_read_hold(redis.pcall('HMGET', KEYS[1], 'mode', 'token', 'next')) then return false end
    reading = reap_readers()
  end
  local queued = redis.pcall('ZCARD', KEYS[2])
  if type(queued) == 'table' then return false end -- of another type
  after = after or ended_mode
  if queued == 0 then
    if reading then set_field(try_write, 'wanted', 0) end
    return false
  end
  local readers_wait = call('ZSCORE', KEYS[2], READERS_TICKET)
  local place = readers_wait and call('HGET', KEYS[3], '#admit')
  if not to_number(place) then place = nil end
  if reading then
    if not place then
      local writer = grant_to_writer(queued, true)
      if writer ~= false then return writer == nil end
      set_field(try_write, 'wanted', 0)
    end
    return readers_wait and admit_readers(place)
  end
  local more
  if place or readers_wait and after ~= 'read' and (after == 'write' or call('ZRANGE', KEYS[2], 0, 0)[1] == READERS_TICKET) then
    more = admit_readers(place)
    if more ~= nil then return more end
    queued = call('ZCARD', KEYS[2])
  end
  local writer = grant_to_writer(queued)
  if writer == true then return false end
  if readers_wait then more = admit_readers() end
  if more == nil and writer then more = writer() or false end -- it is granted
  if more == nil and readers_wait then more = admit_readers(nil, true) end
  if more == nil then more = call('EXISTS', KEYS[2]) == 1 end
  return more
end

-- Publishes to the holders' processes that a ticket waits, so that they stop sharing the lock or passing it on locally. `reads`
-- says that possibly only readers wait. A grant batch ends only if `ends_batch` is set.
local function report_waiters(h, reads, ends_batch)
  if not h then return end
  if h.mode ~= 'read' then
    if not h.wanted then set_field(try_write, 'wanted', 1) end
    if h.tokens > 1 and (ends_batch or h.mode == 'exclusive') then publish(h.inbox, 'contended ' .. h.id) end
  elseif not reads and not h.wanted then
    set_field(try_write, 'wanted', 1)
    each_reader(MAX_ADMITTED, function(id, _, inbox) publish(inbox, 'contended ' .. id) end)
  end
end

-- Returns the TTL of the lock, the time (us), and owner, inbox, token, since (us) and trace of each holder, up to MAX_SHOWN
-- holders. An owner has a '-' in front if its hold was unlocked and the key only stays taken.
local function describe(h)
  if not h then return 0 end
  local shown = {call('PTTL', KEYS[1]), digits(now_us)}
  local function add(owner, inbox, since, trace)
    if #shown < 5 * MAX_SHOWN then
      for _, v in ipairs({owner, inbox, h.token, since, trace}) do shown[#shown + 1] = v end
    end
  end
  if h.mode ~= 'read' then
    add(h.id == '-' and '-' .. h.owner or h.owner, h.inbox, h.since, h.trace)
  else
    local seen, last = 0, 0
    each_reader(MAX_SHOWN, function(_, since, inbox, owner, trace, ends)
      add(owner, inbox, since, trace)
      seen, last = seen + 1, math.max(last, ends)
    end)
    -- A reader that has left may have made the hash last longer.
    if seen == call('HLEN', KEYS[1]) - COMMON_FIELDS then shown[1] = math.max(0, math.min(shown[1], last - now_ms)) end
  end
  return unpack(shown)
end
