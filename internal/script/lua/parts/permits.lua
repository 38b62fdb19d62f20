--@limits
--@fence
--@publish
local LINES, LINE, BUSY, POLLED = {KEYS[2]}, KEYS[2], 4, 2
--@queue
--@permits_shown
--@permit_text
-- The functions for permits of the scripts that serve locks and permits: see locks.lua. The hash of a semaphore has the mode
-- 'permit', and a field p:<id> for each permit: when its hold ends (ms), since when it is held (us), token, n, weight, slots,
-- inbox, owner and trace. Four more fields describe all permits together:
--   'used'  the weight that is taken
--   'map'   a character for each slot: '1' taken, 'x' free after a hold that expired, '0' free otherwise
--   'next'  no permit ends before (ms)
--   'last'  no permit ends after (ms)
-- These four fields are written together with each permit. An expired permit never counts again, even if its field still
-- exists. The queue of permits has its own keys. The hash exists while any call waits, so that locks find it.
-- Rule 26 of docs/protocol.md.
local NEVER = MAX - 1
local p -- the fields that describe all permits

-- Returns the permit of an id; nil if it has none, or if it has expired.
local function read_permit(id)
  local q = parse_permit(call('HGET', KEYS[1], 'p:' .. id))
  return q and q.ends > now_ms and q or nil
end

local function permit_text(q)
  return table.concat({digits(q.ends), q.since, q.token, q.n, q.w, q.slots, q.inbox, q.owner, q.trace}, ' ')
end

-- Returns how many tickets wait: 0 if the queue's key is of another type.
local function count_tickets()
  local queued = redis.pcall('ZCARD', KEYS[2])
  return type(queued) == 'number' and queued or 0
end

-- Keeps the hash until the last permit has ended, for at least `lease` (ms), and while any ticket waits. Returns false if there
-- is no hash. The expiry is never only a few ms: it could pass before the server sets it. Then the server would delete the
-- hash, and the next write would make one without an expiry.
local function keep_permits(lease)
  return call('PEXPIRE', KEYS[1], math.max(p.last - now_ms, lease or 1, count_tickets() > 0 and QUEUE_TTL or 1000)) == 1
end

-- Writes the fields that describe all permits, together with fields of permits.
local function write_permits(fields)
  for _, v in ipairs({'mode', 'permit', 'used', p.used, 'map', p.map, 'next', digits(p.next), 'last', digits(p.last)}) do
    fields[#fields + 1] = v
  end
  call('HSET', KEYS[1], unpack(fields))
end

-- Calls f(first, last) for each range of slots in a text such as '0-2,5'.
local function each_slot_range(text, f)
  for first, last in string.gmatch(text, '(%d+)-?(%d*)') do
    first = tonumber(first)
    f(first, tonumber(last) or first)
  end
end

-- Returns the map with the slots in `text` marked.
local function mark_slots(map, text, mark)
  each_slot_range(text, function(first, last)
    map = string.sub(map, 1, first) .. string.rep(mark, last - first + 1) .. string.sub(map, last + 2)
  end)
  return map
end

-- Returns the map with w slots below n taken, and these slots as text. The lowest ones come first. Slots whose last hold
-- expired come after all others, because its process may still be working.
local function take_slots(map, w, n)
  map = map .. string.rep('0', math.min(w, n - #map))
  local ranges = {}
  for _, free in ipairs({'0', 'x'}) do
    local at = 1
    while w > 0 do
      local first, last = string.find(map, free .. '+', at)
      if not first or first > n then break end
      last = math.min(last, n, first + w - 1)
      map = string.sub(map, 1, first - 1) .. string.rep('1', last - first + 1) .. string.sub(map, last + 1)
      ranges[#ranges + 1] = first == last and digits(first - 1) or digits(first - 1) .. '-' .. digits(last - 1)
      w, at = w - (last - first + 1), last + 1
    end
  end
  return map, table.concat(ranges, ',')
end

-- Removes expired permits, and counts the others anew. Returns true if another execution must remove the rest.
local function reap_permits()
  if now_ms < p.next or not keep_permits() then return false end -- a full memory does not refuse this write or later ones
  local all, slots, live, gone, more = call('HGETALL', KEYS[1]), {}, {}, {}, false
  for i = 1, #p.map do slots[i] = string.byte(p.map, i) == 120 and 'x' or '0' end -- an 'x' stays one
  local function mark(q, as)
    each_slot_range(q.slots, function(first, last)
      for slot = #slots + 1, first do slots[slot] = '0' end
      for slot = first + 1, last + 1 do slots[slot] = as end
    end)
  end
  p.used, p.next, p.last = 0, NEVER, 0
  for i = 1, #all, 2 do
    local is_permit = string.sub(all[i], 1, 2) == 'p:'
    local q = is_permit and parse_permit(all[i + 1])
    if q and q.ends > now_ms then
      live[#live + 1] = q
      p.used, p.next, p.last = p.used + q.w, math.min(p.next, q.ends), math.max(p.last, q.ends)
    elseif is_permit then
      if #gone < MAX_ADMITTED then gone[#gone + 1] = all[i] else more = true end
      if q then mark(q, 'x') end
    end
  end
  for _, q in ipairs(live) do mark(q, '1') end
  p.map = table.concat(slots)
  if more then p.next = now_ms end
  local fields = {}
  for _, field in ipairs(gone) do
    fields[#fields + 1], fields[#fields + 2] = field, '' -- if the script is cut off here, the field is no longer a permit
  end
  write_permits(fields)
  if #gone > 0 then call('HDEL', KEYS[1], unpack(gone)) end
  return more
end

-- Returns the fields that describe all permits; an error reply if the key is of another type or kind.
local function read_permits()
  local f = redis.pcall('HMGET', KEYS[1], 'mode', 'used', 'map', 'next', 'last', 'id')
  if f.err then return f end
  if f[1] == 'permit' then
    local all = {used = to_number(f[2]), map = f[3], next = to_number(f[4]), last = to_number(f[5])}
    if all.used and all.map and all.next and all.last then return all end
  elseif call('EXISTS', KEYS[1]) == 0 then
    return {used = 0, map = '', next = NEVER, last = 0, isNew = true}
  elseif f[6] or f[1] == 'read' then
    return {err = 'WRONGTYPE the key has a lock of mode ' .. (f[1] or 'exclusive') .. ', and this is a semaphore'}
  end
  return {err = 'WRONGTYPE the key holds a hash that is not a semaphore'}
end

-- Does the same as read_permits. Its first call also removes expired permits.
local function read_hold()
  if not p then
    p = read_permits()
    p.more = not p.err and reap_permits()
  end
  return p
end

-- Writes the permit q. It gets slots if it has none yet.
local function add_permit(id, q)
  if not q.slots then p.map, q.slots = take_slots(p.map, q.w, tonumber(q.n)) end
  p.used, p.next, p.last = p.used + q.w, math.min(p.next, q.ends), math.max(p.last, q.ends)
  call('SET', fence, q.token)
  write_permits({'p:' .. id, permit_text(q)})
  keep_permits()
end

-- Whether there is room for a permit depends on the tickets, so grant_next has to look at them.
local function has_room() return true end

-- Ends the permit of an id. With `linger` (ms) its weight stays taken for that long, without a holder. Returns whether the id
-- had a permit, and then that others may get one now.
local function end_hold(id, linger)
  local q = not read_hold().err and read_permit(id)
  -- A full memory does not refuse this write or later ones.
  if not q or not keep_permits() then return false end
  local fields = {'p:' .. id, ''}
  if linger and tonumber(linger) > 0 then
    q.ends, q.owner = now_ms + linger, '-' .. q.owner
    p.next, p.last = math.min(p.next, q.ends), math.max(p.last, q.ends)
    fields[3], fields[4] = 'p:-' .. id, permit_text(q)
  else
    p.used, p.map = p.used - q.w, string.match(mark_slots(p.map, q.slots, '0'), '^.*[^0]') or ''
    if p.used == 0 then p.next, p.last = NEVER, 0 end -- otherwise they are only bounds
  end
  write_permits(fields)
  call('HDEL', KEYS[1], 'p:' .. id)
  return true, 'permit'
end

-- Calls f(id, token, owner, inbox) for each permit.
local function each_hold(_, f) each_permit(function(id, q) f(id, q.token, q.owner, q.inbox) end) end

-- Extends the permit of an id to at least `lease` (ms), and writes even if the permit lasts longer (rule 21). Returns the
-- answer for a caller that holds a permit; nil if the id has none.
local function extend(_, id, lease)
  local q = read_permit(id)
  lease = tonumber(lease)
  -- A full memory does not refuse this write or later ones.
  if not q or not keep_permits(lease) then return nil end
  if q.ends < now_ms + lease then
    q.ends = now_ms + lease
    p.last = math.max(p.last, q.ends)
    call('HSET', KEYS[1], 'p:' .. id, permit_text(q), 'last', digits(p.last))
  end
  return {3, tonumber(q.token), q.slots, call('ZCARD', KEYS[2])}
end

local count_waiting, remove_ticket = count_tickets, drop_ticket

-- Raises or returns an error if a key is of another type or kind than a semaphore's.
local function check_types()
  call('ZCARD', KEYS[2])
  call('HLEN', KEYS[3])
  if p.isNew and call('EXISTS', KEYS[5]) > 0 then
    return {err = 'WRONGTYPE locks of the key are waited for, and this is a semaphore'}
  end
end

-- Holders of permits need no report of waiters: they share nothing that others wait for.
local function report_waiters() end

-- Prolongs the queue and the hash.
local function mark_active()
  keep_queue()
  keep_permits()
end

-- Grants a permit to a ticket, and returns what `grant` returns.
local function grant_permit(t)
  local token = digits(reserve_tokens(1))
  local map, slots = take_slots(p.map, t.w, t.n)
  local message = table.concat({
    'permit', t.id, token, #slots <= MAX_SLOTS_SHOWN and slots or '-', math.max(call('ZCARD', KEYS[2]) - 1, 0), KEYS[1],
  }, ' ')
  return grant(t, message, function()
    drop_ticket(t.id)
    p.map, t.slots, t.ends, t.since, t.token = map, slots, now_ms + ACCEPT, digits(now_us), token
    add_permit(t.id, t) -- the ticket has the other fields of the permit
  end)
end

-- Returns a ticket of the queue; nil if it is dead. The weight takes the place of the tokens wanted, and n follows the time
-- since when the ticket waits. Only a ticket of weight 1 may be skipped.
local function live_permit_ticket(id)
  local t = live_ticket(id)
  local w, n = t and to_number(t.tokens), t and to_number(t.fields[7])
  if not n or w < 1 or w > n or n > MAX_PERMITS then return nil end
  t.w, t.n, t.trace, t.may_skip = w, n, t.fields[8] or '', t.may_skip and w == 1
  return t
end

-- Grants permits to the head of the queue as long as its weight fits its own n. It skips tickets whose processes certainly do
-- not listen; they get the permits that are left when no other ticket wants them. Returns true if a poll must follow because
-- one execution could not do everything.
local function grant_to_queue()
  if not may_grant() or count_tickets() == 0 or not reserve_tokens(1) then return false end
  local passed, more = {}, true
  for _ = 1, MAX_REAPED do
    local id = call('ZRANGE', KEYS[2], #passed, #passed)[1]
    local t = id and live_permit_ticket(id)
    if not id or t and p.used + t.w > t.n then
      more = false
      break
    elseif not t then
      drop_ticket(id)
    elseif not grant_permit(t) then
      passed[#passed + 1] = t
    end
  end
  for _, t in ipairs(passed) do
    t.may_skip = false
    if p.used + t.w <= t.n then grant_permit(t) end
  end
  return more and call('EXISTS', KEYS[2]) == 1
end

-- Grants permits to waiting tickets. Then it deletes the hash if no permit and no ticket is left; otherwise it keeps the hash
-- for as long as necessary. Returns true if a poll must follow.
local function grant_next()
  if read_hold().err then return false end
  local more = grant_to_queue() or p.more
  if p.used == 0 and now_ms < p.next and count_tickets() == 0 then
    call('DEL', KEYS[1])
  elseif call('EXISTS', KEYS[1]) == 1 then
    keep_permits()
  end
  return more
end

-- Returns the description of the holders: see permits_shown.lua.
local function describe() return show_permits(p.next, now_ms, digits(now_us)) end
