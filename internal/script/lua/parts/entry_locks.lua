-- Part of acquire.lua: takes a lock, or puts a ticket into its queue.
--@vote
local reads = ARGV[6] == 'read'
LINE = reads and KEYS[5] or KEYS[2]

-- Takes the lock if no holder and no ticket is in the way, and returns the caller's answer. `place` is the place of the
-- caller's ticket.
local function take(h, place)
  local inbox, owner, trace = ARGV[3], ARGV[4], ARGV[8] or ''
  if reads then
    if not has_room(h) or count_writers() > 0 then return nil end
    local token = h and h.token or last_token()
    if token == 0 then
      token = reserve_tokens(1)
      call('SET', fence, digits(token))
    end
    if place then remove_ticket(ARGV[1]) end
    add_reader(ARGV[1], token, ARGV[2], inbox, owner, trace)
    if call('ZCARD', KEYS[5]) > 0 then grant_next() end -- other waiting readers may also read now
    return {1, token, 1, 0}
  end
  if h or call('EXISTS', KEYS[2]) == 1 then return nil end
  local tokens, proposed, first, count = tonumber(ARGV[7] or 1), tonumber(ARGV[9]), nil, nil
  if proposed then first, count = propose_tokens(last_token(), now_us, tokens, proposed) end
  if not first then first, count = reserve_tokens(tokens) end
  set_holder(ARGV[1], first, count, ARGV[6] or 'exclusive', ARGV[2], inbox, owner, trace, 0, tonumber(ARGV[15] or 1))
  if not ARGV[7] then return digits(first) end
  return {1, first, count, 0, proposed and now_us or nil}
end

-- Puts the ticket into its queue.
local function enqueue(place)
  if reads then call('ZADD', KEYS[2], 'NX', place, READERS_TICKET) end -- no other script would see the ticket without it
  call('ZADD', LINE, place, ARGV[1])
  if reads then
    call('PEXPIRE', LINE, QUEUE_TTL) -- acquire.lua prolongs the queues only if no ticket waited before
    sync_readers_ticket()
  end
end

-- Returns the text of the ticket: see queue.lua.
local function ticket_text()
  return table.concat({ARGV[6] or 'exclusive', ARGV[2], ARGV[5], ARGV[3], ARGV[4], digits(now_us), ARGV[8] or ''}, ' ')
end

-- Notifies the holders that the caller waits. A ticket that waits to read, or is ahead of another one, ends a grant batch.
local function notify_holders(h, queued)
  if not h or h.id == ARGV[1] then return end
  report_waiters(h, reads, queued and (reads or call('ZRANGE', KEYS[2], -1, -1)[1] ~= ARGV[1]))
end
