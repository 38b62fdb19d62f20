-- Takes a lock or a permit, or queues a ticket. A repeated execution does no harm: it reports what the id already has. An id
-- with a done mark is refused.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers; for a permit: the queue of locks
--        6 live processes, see alive.lua  7 done mark of the id
--        8 done mark of the predecessor  9 kept place: both only if ARGV 11 to 14 need them
--   ARGV 1 id  2 lease (ms)  3 inbox  4 owner
--        5 tokens wanted if the lock is granted later; then 'r' if the ticket may be in a grant batch; then the ticket's secret
--          after a colon. 0: do not queue
--        optional: 6 mode; 'permit' for a permit
--        optional: 7 tokens wanted if the lock is free; for a permit: its weight  8 trace
--        optional: 9 for a lock over several nodes: the proposed token, 0 for none; for any other lock: ''; for a permit: n
--        10 1: notify the holder of this call even if its id is not queued; otherwise ''
--        optional: 11 predecessor: the id of a hold to end or of a lost ticket; '' for none
--        12 place of the predecessor in the queue, or ''  13 TTL of the predecessor's done mark (ms), 0 for no mark
--        14 how long the place is kept from now on if the call does not get the lock (ms), 0 for not at all
--        optional: 15 number of calls of the process that share the ticket
--   returns token  held with one token, and no ticket waits
--           {1, token, tokens, tickets waiting}  held; the time (us) follows if the lock is over several nodes and was free
--           {3, token, slots, tickets waiting}  a permit is held
--           {0, fencing counter, position, length of the queue, place, TTL, time,
--            owner, inbox, token, since, trace of each holder}  queued, or busy
--           {4, fencing counter, position, length of the queue, place, ms until the first permit may end, time,
--            the field of each permit: see permits.lua}  the same for a permit
--           {-1}  refused: the id has ended      {2}  run again: one execution could not do everything
--           error UNTRUSTED, before the first write: see quarantine.lua
-- Rules 2, 4, 5, 11, 12, 22, 24, 25 and 26 of docs/protocol.md.
--@quarantine
local call, fence = redis.call, KEYS[4]
if not may_grant() then return UNTRUSTED end
--@fast_acquire_{kind}
--@{kind}
--@places
--@entry_{kind}
local id, lease, keep, kept, predecessor = ARGV[1], ARGV[2], ARGV[14] or '0', KEYS[9], ARGV[11] or ''

local h = read_hold()
if h and h.err then return h end
-- Errors of type must come before the first write.
local place, refused = call('ZSCORE', LINE, id), check_types(h)
if refused then return refused end
if not reserve_tokens(1) then return counter_error() end

local after, _
if predecessor ~= '' then
  _, after = end_hold(predecessor)
  remove_ticket(predecessor)
  if ARGV[13] ~= '0' then call('SET', KEYS[8], 1, 'PX', ARGV[13]) end
  h = read_hold()
end
if call('EXISTS', KEYS[7]) == 1 then
  grant_next(after)
  return {-1}
end
local held = extend(h, id, lease) or take(h, place)
if held then return held end

if ARGV[5] ~= '0' then
  local text, calls, was_empty = place and call('HGET', KEYS[3], id), ARGV[15] or '1', call('EXISTS', KEYS[2]) == 0
  if not place then
    place = place_in_queue(ARGV[12], keep, kept)
    enqueue(place)
    text = ticket_text()
    if keep ~= '0' then write_kept_place(kept, place, keep) end
  end
  if text then call('HSET', KEYS[3], id, with_calls(text, calls)) end
  if was_empty then mark_active() end -- otherwise the polls of earlier tickets keep the queue alive
  notify_holders(h, true)
elseif ARGV[10] == '1' then
  notify_holders(h, false)
end
if has_room(h) then
  if grant_next(after) then return {2} end
  h = read_hold()
  held = extend(h, id, lease) or take(h, place) -- all tickets were dead, or were granted the lock
  if held then return held end
end
if keep ~= '0' and not place then write_kept_place(kept, place_in_queue(ARGV[12], keep, kept), keep) end
local position = call('ZRANK', LINE, id)
place = math.max(0, math.min(tonumber(place) or 0, MAX)) -- a score that no script wrote may be infinite
return {BUSY, last_token(), position and position + 1 or 0, count_waiting(), place, describe(h)}
