--@limits
--@fence
--@publish
local LINES, LINE, BUSY, POLLED = {KEYS[2]}, KEYS[2], 4, 2
--@queue
--@permits_shown
-- The part of the scripts that deal with permits: see locks.lua. The hash of a semaphore has the mode 'permit', and a field p:<id> for each
-- permit: when its hold ends (ms), since when it is held (us), token, n, weight, slots, inbox, owner and trace. Four more fields
-- are for all of them: how much weight is taken ('used'); each slot in its turn, '1' if it is taken, 'x' if its last hold
-- ended by its time, else '0' ('map'); and when the first and the last of the permits end at the earliest and at the latest
-- ('next', 'last', ms). What counts a permit is written together with it. A permit whose time is over never counts again, even
-- if its field is still there.
-- The queue of permits has keys of its own. The hash lives for as long as somebody waits, so that locks see it.
-- Rule 26 of docs/protocol.md.
local NEVER = MAX - 1
local p -- what the fields say of all permits

local function permit_field(id) return 'p:' .. id end

-- Returns what the field of a permit says; nil if it says nothing.
local function parse_permit(text)
  local ends, since, token, n, w, slots, inbox, owner, trace =
    string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) ([%d,-]+) ([^ ]*) ([^ ]*) ?([^ ]*)$')
  if not ends then return nil end
  return {
    ends = tonumber(ends), since = since, token = token, n = n, w = tonumber(w), slots = slots, inbox = inbox, owner = owner,
    trace = trace,
  }
end

-- Returns the permit of an id; nil if it has none, or its time is over.
local function read_permit(id)
  local q = parse_permit(call('HGET', KEYS[1], permit_field(id)))
  return q and q.ends > now_ms and q or nil
end

local function permit_text(q)
  return table.concat({digits(q.ends), q.since, q.token, q.n, q.w, q.slots, q.inbox, q.owner, q.trace}, ' ')
end

-- Returns how many wait: nobody if somebody else keeps something at the queue's key.
local function count_tickets()
  local queued = redis.pcall('ZCARD', KEYS[2])
  return type(queued) == 'number' and queued or 0
end

-- Lets the hash live until the last permit has ended, for `lease` (ms) at least, and while somebody waits. Returns false if there
-- is none. A time of a few ms may be over when the server sets it: it removes the hash then, and what is written next has no end.
local function keep_permits(lease)
  return call('PEXPIRE', KEYS[1], math.max(p.last - now_ms, lease or 1, count_tickets() > 0 and QUEUE_TTL or 1000)) == 1
end

-- Writes what counts the permits, together with fields of permits.
local function write_permits(fields)
  for _, v in ipairs({'mode', 'permit', 'used', p.used, 'map', p.map, 'next', digits(p.next), 'last', digits(p.last)}) do
    fields[#fields + 1] = v
  end
  call('HSET', KEYS[1], unpack(fields))
end

-- Calls f(first, last) for the runs of slots that text names, such as '0-2,5'.
local function each_run(text, f)
  for first, last in string.gmatch(text, '(%d+)-?(%d*)') do
    first = tonumber(first)
    f(first, tonumber(last) or first)
  end
end

-- Returns the map with the slots that text names marked.
local function mark_slots(map, text, mark)
  each_run(text, function(first, last)
    map = string.sub(map, 1, first) .. string.rep(mark, last - first + 1) .. string.sub(map, last + 2)
  end)
  return map
end

-- Returns the map with w of the slots below n taken, and which these are. The lowest come first, and those whose last hold was
-- released before those whose hold ended by its time: its process may still work.
local function take_slots(map, w, n)
  map = map .. string.rep('0', math.min(w, n - #map))
  local runs = {}
  for _, free in ipairs({'0', 'x'}) do
    local at = 1
    while w > 0 do
      local first, last = string.find(map, free .. '+', at)
      if not first or first > n then break end
      last = math.min(last, n, first + w - 1)
      map = string.sub(map, 1, first - 1) .. string.rep('1', last - first + 1) .. string.sub(map, last + 1)
      runs[#runs + 1] = first == last and digits(first - 1) or digits(first - 1) .. '-' .. digits(last - 1)
      w, at = w - (last - first + 1), last + 1
    end
  end
  return map, table.concat(runs, ',')
end

-- Removes permits whose time is over, and counts the others anew. Returns true if it is to be run again for the rest.
local function reap_permits()
  if now_ms < p.next or not keep_permits() then return false end -- a full memory refuses neither this write nor those after it
  local all, slots, live, gone, more = call('HGETALL', KEYS[1]), {}, {}, {}, false
  for i = 1, #p.map do slots[i] = string.byte(p.map, i) == 120 and 'x' or '0' end -- an 'x' stays one
  local function mark(q, as)
    each_run(q.slots, function(first, last)
      for slot = #slots + 1, first do slots[slot] = '0' end
      for slot = first + 1, last + 1 do slots[slot] = as end
    end)
  end
  p.used, p.next, p.last = 0, NEVER, 0
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'p:' then
      local q = parse_permit(all[i + 1])
      if q and q.ends > now_ms then
        live[#live + 1] = q
        p.used, p.next, p.last = p.used + q.w, math.min(p.next, q.ends), math.max(p.last, q.ends)
      else
        if #gone < MAX_ADMITTED then gone[#gone + 1] = all[i] else more = true end
        if q then mark(q, 'x') end
      end
    end
  end
  for _, q in ipairs(live) do mark(q, '1') end
  p.map = table.concat(slots)
  if more then p.next = now_ms end
  local fields = {}
  for _, field in ipairs(gone) do
    fields[#fields + 1] = field
    fields[#fields + 1] = '' -- if the script is cut off here, it is no permit any more
  end
  write_permits(fields)
  if #gone > 0 then call('HDEL', KEYS[1], unpack(gone)) end
  return more
end

-- Returns what the fields say of all permits; an error reply if the key is of another type or kind.
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

-- Returns what is known of all permits; an error reply if the key is of another type or kind. The first time it removes those whose
-- time is over.
local function read_hold()
  if not p then
    p = read_permits()
    p.more = not p.err and reap_permits()
  end
  return p
end

-- Writes the permit q, which gets its slots if it has none yet.
local function add_permit(id, q)
  if not q.slots then p.map, q.slots = take_slots(p.map, q.w, tonumber(q.n)) end
  p.used, p.next, p.last = p.used + q.w, math.min(p.next, q.ends), math.max(p.last, q.ends)
  call('SET', fence, q.token)
  write_permits({permit_field(id), permit_text(q)})
  keep_permits()
end

-- Whether somebody may get a permit is only known when the tickets are looked at.
local function has_room() return true end

-- Ends the permit of an id. With `linger` (ms) it stays taken for that long, for nobody. Returns whether it had one, and then that
-- others may get one now.
local function end_hold(id, linger)
  local q = not read_hold().err and read_permit(id)
  -- A full memory refuses neither this write nor those after it.
  if not q or not keep_permits() then return false end
  local fields = {permit_field(id), ''}
  if linger and tonumber(linger) > 0 then
    q.ends, q.owner = now_ms + linger, '-' .. q.owner
    p.next, p.last = math.min(p.next, q.ends), math.max(p.last, q.ends)
    fields[3], fields[4] = permit_field('-' .. id), permit_text(q)
  else
    p.used, p.map = p.used - q.w, string.match(mark_slots(p.map, q.slots, '0'), '^.*[^0]') or ''
    if p.used == 0 then p.next, p.last = NEVER, 0 end -- else they are only bounds
  end
  write_permits(fields)
  call('HDEL', KEYS[1], permit_field(id))
  return true, 'permit'
end

-- Calls f(id, token, owner, inbox) for each permit.
local function each_hold(_, f)
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local q = string.sub(fields[i], 1, 2) == 'p:' and parse_permit(fields[i + 1])
    if q and q.ends > now_ms then f(string.sub(fields[i], 3), q.token, q.owner, q.inbox) end
  end
end

-- Extends the permit of an id to at least `lease` (ms), by a write in any case (rule 21), and returns what a caller is answered who
-- has one; nil if it has none.
local function extend(_, id, lease)
  local q = read_permit(id)
  lease = tonumber(lease)
  -- A full memory refuses neither this write nor those after it.
  if not q or not keep_permits(lease) then return nil end
  if q.ends < now_ms + lease then
    q.ends = now_ms + lease
    p.last = math.max(p.last, q.ends)
    call('HSET', KEYS[1], permit_field(id), permit_text(q), 'last', digits(p.last))
  end
  return {3, tonumber(q.token), q.slots, call('ZCARD', KEYS[2])}
end

local count_waiting, remove_ticket = count_tickets, drop_ticket

-- Returns an error if a key is of another type than a semaphore's.
local function check_types()
  call('ZCARD', KEYS[2])
  call('HLEN', KEYS[3])
  if p.isNew and call('EXISTS', KEYS[5]) > 0 then
    return {err = 'WRONGTYPE locks of the key are waited for, and this is a semaphore'}
  end
end

-- The holders of permits are not told who waits: they share nothing that others wait for.
local function tell_others() end

-- Does keep_queue, and keeps the permits.
local function mark_active()
  keep_queue()
  keep_permits()
end

-- Grants a permit to a ticket, and publishes that. It returns false if its process certainly does not listen, and then grants
-- nothing. What is published must be written already, as for a lock: see locks.lua.
local function grant_permit(t)
  local token = digits(reserve_tokens(1))
  local map, slots = take_slots(p.map, t.w, t.n)
  local message = prove(table.concat({
    'permit', t.id, token, #slots <= MAX_SLOTS_TOLD and slots or '-', math.max(call('ZCARD', KEYS[2]) - 1, 0), KEYS[1],
  }, ' '), t.secret)
  if t.mute and publish(t.inbox, message) == 0 then return false end
  p.map = map
  drop_ticket(t.id)
  add_permit(t.id, {
    ends = now_ms + ACCEPT, since = digits(now_us), token = token, n = t.n, w = t.w, slots = slots, inbox = t.inbox,
    owner = t.owner, trace = t.trace,
  })
  if not t.mute then publish(t.inbox, message) end
  return true
end

-- Returns a ticket of the queue; nil if it is dead. Where a ticket for a lock has the tokens wanted it has its weight, and n
-- follows the time since when it waits. Only a light one may be passed over.
local function live_permit_ticket(id)
  local t = live_ticket(id)
  local w, n = t and to_number(t.tokens), t and to_number(t.fields[7])
  if not n or w < 1 or w > n or n > MAX_PERMITS then return nil end
  t.w, t.n, t.trace, t.mute = w, n, t.fields[8] or '', t.mute and w == 1
  return t
end

-- Grants permits to the head of the queue for as long as its weight is free of its own n. Tickets whose processes
-- certainly do not listen are passed over; what is left when nobody else wants it they get anyway. Returns true if
-- it is to be run again, because there was more to do than one run does.
local function settle_permits()
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
    t.mute = false
    if p.used + t.w <= t.n then grant_permit(t) end
  end
  return more and call('EXISTS', KEYS[2]) == 1
end

-- Does settle_permits. Then it removes the hash if no permit and no ticket is left, and else lets it live as long as it has to.
local function settle()
  if read_hold().err then return false end
  local more = settle_permits() or p.more
  if p.used == 0 and now_ms < p.next and count_tickets() == 0 then
    call('DEL', KEYS[1])
  elseif call('EXISTS', KEYS[1]) == 1 then
    keep_permits()
  end
  return more
end

-- Returns what describes the holders: see permits_shown.lua.
local function describe() return show_permits(p.next, now_ms, digits(now_us)) end
