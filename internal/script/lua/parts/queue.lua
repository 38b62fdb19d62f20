--@alive
-- Part of the scripts that deal with a queue, of locks or of permits. It is the sorted set KEYS[2], in the order of the places.
-- The field <id> of the tickets hash says what a ticket is granted: mode, lease, tokens wanted, inbox, owner, since when it waits,
-- trace. Behind the tokens may be flags, and after a colon the secret by which its process knows the messages of grants of this lock.
-- Behind the time may be '*' and for how many calls of its process it stands, if they are several.
-- Rules 7, 8 and 11 of docs/protocol.md.

-- Removes tickets of the queue. It does not touch keys of another type.
local function drop_ticket(...)
  try_write('ZREM', KEYS[2], ...)
  if type(try_write('HDEL', KEYS[3], ...)) == 'number' and call('EXISTS', KEYS[2]) == 0 then call('DEL', KEYS[3]) end
end

-- Returns the place in the queue that is kept for a caller who is away: false if there is none, 0 if its
-- caller got the lock and released it, nil if the key is of another type.
local function read_kept_place(key)
  local kept = redis.pcall('GET', key)
  return kept and to_number(kept)
end

-- Keeps a place in the queue.
local function write_kept_place(key, place, ms)
  if read_kept_place(key) ~= nil then call('SET', key, digits(tonumber(place)), 'PX', ms) end
end

-- Keeps the place that a cancelled id had in the queue for `keep` (ms); 0: it has none. If that is negative, the place is over for
-- so long if it is older than the token of the hold that the id had.
local function end_place(key, keep, place, token)
  if keep < 0 then
    local kept = read_kept_place(key) -- another call may have a newer one
    if kept and kept < tonumber(token) then write_kept_place(key, 0, -keep) end
  elseif keep > 0 and type(place) == 'string' then
    -- Another call may have used the kept place meanwhile, and have another place or none any more.
    local kept = read_kept_place(key)
    if kept == false or kept == tonumber(place) then write_kept_place(key, place, keep) end
  end
end

-- Returns the place of a new ticket: the given one, which is its predecessor's, or its kept one. Else it is behind all tickets
-- and all kept places: the next number of the fencing counter, which is never behind a kept place. A score
-- that is far ahead of that was not written by a script and is ignored. `keep` is for how long the place is kept (ms), '0': not
-- at all.
local DAY = 24 * 60 * 60 * 1000000 -- us
local function place_in_queue(given, keep, kept)
  if given and given ~= '' then return given end
  local place_kept = keep ~= '0' and read_kept_place(kept) or 0
  if place_kept > 0 then return digits(place_kept) end
  local new = math.max(last_token() + 1, now_us)
  for _, queue in ipairs(LINES) do
    local last = tonumber(call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]) or 0
    if last >= new and last < new + DAY then new = last + 1 end
  end
  new = digits(new)
  if keep ~= '0' then call('SET', fence, new) end
  return new
end

-- Lets the queue and its tickets live for another while.
local function keep_queue()
  call('PEXPIRE', KEYS[2], QUEUE_TTL)
  call('PEXPIRE', KEYS[3], QUEUE_TTL)
end

-- Returns for how many calls a ticket stands, by its text.
local function calls_of(text) return string.match(text or '', '^[^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ %d+%*(%d+)') or '1' end

-- Returns the text of a ticket that stands for that many calls.
local function with_calls(text, calls)
  local head, tail = string.match(text, '^([^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ %d+)%*?%d*(.*)$')
  if not head then return text end
  return head .. (calls ~= '1' and '*' .. calls or '') .. tail
end

-- Returns what a ticket is to be granted; nil if its process is dead. `mute` says that its process certainly does not listen if a
-- message to it reaches no subscriber.
local function live_ticket(id)
  local text = call('HGET', KEYS[3], id)
  local fields = {}
  for field in string.gmatch(text or '', '[^ ]+') do fields[#fields + 1] = field end
  local tokens, flags, secret = string.match(fields[3] or '', '^(%d+)(%l*):?(.*)$') -- another version may have more flags
  if #fields < 6 or not to_number(tokens) then return nil end
  local dead, seen, sign = look_alive(fields[4], string.match(fields[6], '^%d+'))
  if dead then return nil end
  return {
    id = id, mode = fields[1], tokens = tokens, text = flags == 'r' and text, inbox = fields[4], owner = fields[5], trace = fields[7] or '',
    fields = fields, secret = secret, calls = to_number(string.match(fields[6], '%*(%d+)$')) or 1, mute = SINGLE and sign == '+' and now_ms - seen > RECENT,
  }
end
