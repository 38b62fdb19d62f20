-- Takes the lock, or queues a ticket for it. Harmless when repeated: the answer says again what the id has
-- already, and an id that is over is refused.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers  6 done mark of the id
--        7 done mark of the predecessor  8 kept place: both only if the arguments below ask for them
--   ARGV 1 id  2 lease (ms)  3 inbox  4 owner
--        5 '+' if the inbox is subscribed, else '-', and how many tokens are wanted if the lock is granted
--          later, with an 'r' behind it if the ticket may be one of a run, and the secret of the ticket after a colon;
--          0: do not queue
--        may follow: 6 mode
--        may follow: 7 tokens wanted if the lock is free  8 trace
--        may follow: 9 if the lock is one of several, a token that is proposed, 0: none; '': it is not
--        10 1: the holder is to know that somebody waits, though the id is not queued; else ''
--        may follow: 11 predecessor: the id of a hold to give up or of a ticket that got lost; '': none
--        12 its place in the queue or ''  13 for how long it is marked as over (ms), 0: not at all
--        14 for how long the place is kept from now on if the lock is not had (ms), 0: not at all
--        may follow: 15 for how many calls of its process it stands
--   returns token  held, with one token, and no ticket waits
--           {1, token, tokens, tickets waiting}  held; and the time (us) if the lock is one of several and was free
--           {0, fencing counter, position, length of the queue, place, TTL, time,
--            owner, inbox, token, since, trace of each holder}  queued, or busy
--           {-1}  refused: the id is over      {2}  to be run again: more dead tickets than one run removes
--           UNTRUSTED, an error, before the first write: see quarantine.lua
-- Rules 2, 4, 5, 11, 12, 22, 24 and 25 of docs/protocol.md.
--@quarantine
local call, fence = redis.call, KEYS[4]
if not may_grant() then return UNTRUSTED end
-- How many of these keys exist tells the short ways what there is.
local there = ARGV[6] ~= 'read' and call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6])
if not ARGV[7] and there == 0 then
  -- The common case has lines of its own: they do what hold.lua does for a lock without extras, if the
  -- counter lies behind the clock, and that is far from the last token. Digits stay strings, because converting them takes longer than the rest.
  local time, last = call('TIME'), redis.pcall('GET', fence)
  local token = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  if token < '9' and (not last or (#last == #token and last < token and not string.find(last, '%D'))) then
    call('SET', fence, token)
    if ARGV[6] then
      call('HSET', KEYS[1], 'id', ARGV[1], 'owner', ARGV[4], 'token', token, 'inbox', ARGV[3], 'mode', ARGV[6])
    else
      call('HSET', KEYS[1], 'id', ARGV[1], 'owner', ARGV[4], 'token', token, 'inbox', ARGV[3])
    end
    call('PEXPIRE', KEYS[1], ARGV[2])
    return token
  end
end
--@limits
--@fast_vote
--@publish
--@fast_queue
--@run
--@fence
--@vote
--@hold
--@readers
--@settle
local id, lease, inbox, owner = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local mode, tokens, trace, predecessor = ARGV[6] or 'exclusive', ARGV[7] or 1, ARGV[8] or '', ARGV[11] or ''
local live, queued = string.sub(ARGV[5], 1, 1), string.sub(ARGV[5], 2)
local keep, kept, calls = ARGV[14] or '0', KEYS[8], ARGV[15] or '1'
local reads, proposed = mode == 'read', ARGV[9] ~= '' and ARGV[9]
local line = reads and KEYS[5] or KEYS[2]

local h = read_holder()
if h and h.err then return h end
-- Errors of type have to come before the first write.
local place = call('ZSCORE', line, id)
call('ZCARD', KEYS[2])
call('ZCARD', KEYS[5])
call('HLEN', KEYS[3])
if not reserve_tokens(1) then return counter_error() end

local after
if predecessor ~= '' then
  after = end_hold(predecessor)
  remove_ticket(predecessor)
  if ARGV[13] ~= '0' then call('SET', KEYS[7], 1, 'PX', ARGV[13]) end
  h = read_holder()
end
if call('EXISTS', KEYS[6]) == 1 then
  settle(after)
  return {-1}
end

-- Takes the lock if no holder and no ticket is in the way.
local function try_take()
  if reads and (not h or h.mode == 'read') and count_writers() == 0 then
    if h and extend_reader(id, tonumber(lease)) then return {1, h.token, 1, 0} end -- the id has it already
    local token = h and h.token or last_token()
    if token == 0 then
      token = reserve_tokens(1)
      call('SET', fence, string.format('%.0f', token))
    end
    if place then remove_ticket(id) end
    add_reader(id, token, lease, inbox, owner, trace)
    if call('ZCARD', KEYS[5]) > 0 then settle() end -- they may read, too
    return {1, token, 1, 0}
  end
  if not reads and not h and call('EXISTS', KEYS[2]) == 0 then
    local first, count
    if proposed then first, count = propose_tokens(last_token(), now_us, tonumber(tokens), tonumber(proposed)) end
    if not first then first, count = reserve_tokens(tokens) end
    set_holder(id, first, count, mode, lease, inbox, owner, trace, 0, tonumber(calls))
    return {1, first, count, 0, proposed and now_us or nil}
  end
end
local taken = try_take()
if taken then return taken end

local queues = queued ~= '0' and not extend_if_held(h, id, lease)
if queues then
  local fields = {'@' .. id, liveness(live, calls)}
  if not place then
    place = place_in_queue(ARGV[12], keep, kept, {KEYS[2], KEYS[5]})
    if reads then call('ZADD', KEYS[2], 'NX', place, READERS_TICKET) end -- without it nobody would see the ticket
    call('ZADD', line, place, id)
    if reads then
      call('PEXPIRE', line, QUEUE_TTL) -- another run may have marked the queue as active just now
      sync_readers_ticket()
    end
    fields[3] = id
    fields[4] = table.concat({mode, lease, queued, inbox, owner, string.format('%.0f', now_us), trace}, ' ')
    if keep ~= '0' then write_kept_place(kept, place, keep) end
  end
  call('HSET', KEYS[3], unpack(fields))
  mark_active()
  -- Who comes to wait to read, or in front of another, ends a run.
  if h then signal_contention(h, reads, reads or call('ZRANGE', KEYS[2], -1, -1)[1] ~= id) end
elseif ARGV[10] == '1' and h and h.id ~= id then
  signal_contention(h, reads)
end
if not h or h.mode == 'read' then
  if settle(after) then return {2} end
  h = read_holder()
end
if extend_if_held(h, id, lease) then
  if h.mode == 'read' then return {1, h.token, 1, count_writers()} end
  return {1, h.token, h.tokens, call('ZCARD', KEYS[2])}
end
taken = try_take() -- all tickets were dead, or have been granted
if taken then return taken end
if keep ~= '0' and not place then write_kept_place(kept, place_in_queue(ARGV[12], keep, kept, {KEYS[2], KEYS[5]}), keep) end
local position = call('ZRANK', line, id)
place = math.max(0, math.min(tonumber(place) or 0, MAX)) -- a score that no script wrote may be infinite
return {0, last_token(), position and position + 1 or 0, count_waiting(), place, describe_holders(h)}
