-- Takes a permit of a semaphore, or queues a ticket for it. Harmless when repeated: the answer says again what the id has
-- already, and an id that is over is refused.
--   KEYS 1 holder  2 queue of permits  3 tickets for permits  4 fencing counter  5 done mark of the id
--        6 queue of locks  7 their queue of readers
--        8 done mark of the predecessor  9 kept place: both only if the arguments below ask for them
--   ARGV 1 id  2 lease (ms)  3 inbox  4 owner
--        5 '+' if the inbox is subscribed, else '-', and 1, with the secret of the ticket after a colon; 0: do not queue
--        6 n  7 weight, at most n  8 trace
--        may follow: 9 predecessor: the id of a hold to give up or of a ticket that got lost; '': none
--        10 its place in the queue or ''  11 for how long it is marked as over (ms), 0: not at all
--        12 for how long the place is kept from now on if the permit is not had (ms), 0: not at all
--   returns {3, token, slots, tickets waiting}  held
--           {4, fencing counter, position, length of the queue, place, ms until the first permit may end, time,
--            the field of each holder: see permits.lua}  queued, or busy
--           {-1}  refused: the id is over      {2}  to be run again: there was more to do than one run does
--           UNTRUSTED, an error, before the first write: see quarantine.lua
-- Rules 2, 11, 22 and 26 of docs/protocol.md.
--@quarantine
local call, fence = redis.call, KEYS[4]
if not may_grant() then return UNTRUSTED end
--@limits
--@permits_shown
--@fast_permit_queue
--@publish
--@fence
--@permits
local id, lease, inbox, owner, n, w, trace = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local live, queues = string.sub(ARGV[5], 1, 1), string.sub(ARGV[5], 2) ~= '0'
local predecessor, keep, kept = ARGV[9] or '', ARGV[12] or '0', KEYS[9]

local p = read_permits()
if p.err then return p end
-- Errors of type have to come before the first write.
local place = call('ZSCORE', KEYS[2], id)
call('HLEN', KEYS[3])
if p.isNew and call('EXISTS', KEYS[6], KEYS[7]) > 0 then
  return {err = 'WRONGTYPE locks of the key are waited for, and this is a semaphore'}
end
if not reserve_tokens(1) then return counter_error() end

local more = reap_permits(p)
if predecessor ~= '' then
  local before = read_permit(predecessor)
  if before then end_permit(p, predecessor, before, 0) end
  drop_ticket(predecessor)
  if ARGV[11] ~= '0' then call('SET', KEYS[8], 1, 'PX', ARGV[11]) end
end
if call('EXISTS', KEYS[5]) == 1 then
  settle_permits(p)
  tidy_permits(p)
  return {-1}
end

local function held(q) return {3, tonumber(q.token), q.slots, call('ZCARD', KEYS[2])} end

-- Takes the permit if nobody waits and its weight is free.
local function try_take()
  if p.used + w > n or call('EXISTS', KEYS[2]) == 1 then return nil end
  local q = {
    ends = now_ms + lease, since = digits(now_us), token = digits(reserve_tokens(1)), n = n, w = w, inbox = inbox, owner = owner,
    trace = trace,
  }
  add_permit(p, id, q)
  return held(q)
end

local q = extend_permit(p, id, lease)
if q then return held(q) end
local taken = try_take()
if taken then return taken end

if queues then
  local fields = {'@' .. id, liveness(live, '1')}
  if not place then
    place = place_in_queue(ARGV[10], keep, kept, {KEYS[2]})
    call('ZADD', KEYS[2], place, id)
    fields[3] = id
    fields[4] = table.concat({'permit', lease, w .. string.sub(ARGV[5], 3), inbox, owner, digits(now_us), n, trace}, ' ')
    if keep ~= '0' then write_kept_place(kept, place, keep) end
  end
  call('HSET', KEYS[3], unpack(fields))
end
if settle_permits(p) or more then
  tidy_permits(p)
  return {2}
end
q = extend_permit(p, id, lease)
if q then return held(q) end
taken = try_take() -- all tickets were dead, or have been granted
if taken then return taken end
tidy_permits(p)
if keep ~= '0' and not place then write_kept_place(kept, place_in_queue(ARGV[10], keep, kept, {KEYS[2]}), keep) end
local position = call('ZRANK', KEYS[2], id)
place = math.max(0, math.min(tonumber(place) or 0, MAX)) -- a score that no script wrote may be infinite
return {4, last_token(), position and position + 1 or 0, call('ZCARD', KEYS[2]), place, show_permits(p.next, now_ms, digits(now_us))}
