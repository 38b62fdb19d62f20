--@alive
-- Part of the scripts that deal with a queue, of locks or of permits. KEYS[2] is a sorted set of ids by their places. In the
-- hash KEYS[3] the field <id> is the text of the ticket: mode, lease, tokens wanted, inbox, owner, since when it waits, and
-- trace. Flags may follow the tokens, and after a colon the secret that proves messages of grants. If several calls of the
-- process share the ticket, '*' and their number follow the time.
-- Rules 7, 8 and 19 of docs/protocol.md.

-- Removes tickets of the queue. It does not touch keys of another type.
local function drop_ticket(...)
  try_write('ZREM', KEYS[2], ...)
  if type(try_write('HDEL', KEYS[3], ...)) == 'number' and call('EXISTS', KEYS[2]) == 0 then call('DEL', KEYS[3]) end
end

-- Prolongs the queues and their tickets.
local function keep_queue()
  call('PEXPIRE', KEYS[3], QUEUE_TTL)
  for _, queue in ipairs(LINES) do call('PEXPIRE', queue, QUEUE_TTL) end
end

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
