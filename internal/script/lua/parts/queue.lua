--@alive
-- Part of the scripts that deal with a queue, of locks or of permits. KEYS[2] is a sorted set of ids by their places. In the
-- hash KEYS[3] the field <id> is the text of the ticket: mode, lease, tokens wanted, inbox, owner, since when it waits, and
-- trace. Flags may follow the tokens, and after a colon the secret that proves messages of grants. If several calls of the
-- process share the ticket, '*' and their number follow the time.
-- Rules 7, 8, 11 and 19 of docs/protocol.md.

-- Removes tickets of the queue. It does not touch keys of another type.
local function drop_ticket(...)
  try_write('ZREM', KEYS[2], ...)
  if type(try_write('HDEL', KEYS[3], ...)) == 'number' and call('EXISTS', KEYS[2]) == 0 then call('DEL', KEYS[3]) end
end

-- Returns the kept place of a call that does not wait at present: false if there is none, 0 if it has ended, nil if the key is
-- of another type.
local function read_kept_place(key)
  local kept = redis.pcall('GET', key)
  return kept and to_number(kept)
end

-- Keeps a place in the queue.
local function write_kept_place(key, place, ms)
  if read_kept_place(key) ~= nil then call('SET', key, digits(tonumber(place)), 'PX', ms) end
end

-- Keeps or ends the place of a cancelled id. keep > 0: the place stays kept for `keep` (ms). keep < 0: the place is marked as
-- ended for -keep (ms) if it is less than `token`, the token of the hold that the id had. 0: the id has no kept place.
local function update_kept_place(key, keep, place, token)
  if keep < 0 then
    local kept = read_kept_place(key) -- another call may have a newer one
    if kept and kept < tonumber(token) then write_kept_place(key, 0, -keep) end
  elseif keep > 0 and type(place) == 'string' then
    -- Meanwhile another call may have used the kept place, and may have another place or none.
    local kept = read_kept_place(key)
    if kept == false or kept == tonumber(place) then write_kept_place(key, place, keep) end
  end
end

-- Returns the place of a new ticket: its predecessor's place if one is given, or its kept place. Otherwise the place is behind
-- all tickets and all kept places. It is the next number of the fencing counter, which no kept place exceeds. A score far ahead
-- of that number was not written by a script and is ignored. `keep` is how long the place is kept (ms), '0' for not at all.
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

-- Prolongs the queue and its tickets.
local function keep_queue()
  call('PEXPIRE', KEYS[2], QUEUE_TTL)
  call('PEXPIRE', KEYS[3], QUEUE_TTL)
end

-- Returns how many calls share the ticket with this text.
local function calls_of(text) return string.match(text or '', '^[^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ %d+%*(%d+)') or '1' end

-- Returns the text of the ticket with this number of calls.
local function with_calls(text, calls)
  local head, tail = string.match(text, '^([^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ %d+)%*?%d*(.*)$')
  if not head then return text end
  return head .. (calls ~= '1' and '*' .. calls or '') .. tail
end

-- Returns a ticket as a table; nil if its process is dead. `may_skip` says that the process is certainly not listening if no
-- subscriber receives a message to it.
local function live_ticket(id)
  local text = call('HGET', KEYS[3], id)
  local fields = {}
  for field in string.gmatch(text or '', '[^ ]+') do fields[#fields + 1] = field end
  local tokens, flags, secret = string.match(fields[3] or '', '^(%d+)(%l*):?(.*)$') -- another version may have more flags
  if #fields < 6 or not to_number(tokens) then return nil end
  local dead, seen, sign = is_dead(fields[4], string.match(fields[6], '^%d+'))
  if dead then return nil end
  return {
    id = id, mode = fields[1], tokens = tokens, text = flags == 'r' and text, inbox = fields[4], owner = fields[5], trace = fields[7] or '',
    fields = fields, secret = secret, calls = to_number(string.match(fields[6], '%*(%d+)$')) or 1, may_skip = SINGLE and sign == '+' and now_ms - seen > RECENT,
  }
end

-- Grants to a ticket by `write`, and publishes the message. Returns false, without a grant, if the ticket's process certainly
-- does not listen. The grant must be written before it is published, because a Cluster may end the script in between. Only
-- publishing shows whether a process listens, so a ticket that may be skipped is published to first. Such tickets exist only on
-- a plain server, which ends no script.
local function grant(t, message, write)
  message = prove(message, t.secret)
  if t.may_skip and publish(t.inbox, message) == 0 then return false end
  write()
  if not t.may_skip then publish(t.inbox, message) end
  return true
end
