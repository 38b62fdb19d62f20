-- Takes the lock or a permit, or queues a ticket. Harmless when repeated: the answer says again what the id has already, and an id
-- that is over is refused.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers; for a permit: the queue of locks
--        6 see alive.lua  7 done mark of the id  8 done mark of the predecessor  9 kept place: both only if the arguments below ask for them
--   ARGV 1 id  2 lease (ms)  3 inbox  4 owner
--        5 how many tokens are wanted if the lock is granted later, with an 'r' behind it if the ticket may be one of a run, and
--          the secret of the ticket after a colon; 0: do not queue
--        may follow: 6 mode; 'permit' for a permit
--        may follow: 7 tokens wanted if the lock is free, or the weight of the permit  8 trace
--        may follow: 9 if the lock is one of several, a token that is proposed, 0: none; '': it is not; for a permit: n
--        10 1: the holder is to know that somebody waits, though the id is not queued; else ''
--        may follow: 11 predecessor: the id of a hold to give up or of a ticket that got lost; '': none
--        12 its place in the queue or ''  13 for how long it is marked as over (ms), 0: not at all
--        14 for how long the place is kept from now on if the lock is not had (ms), 0: not at all
--        may follow: 15 for how many calls of its process it stands
--   returns token  held, with one token, and no ticket waits
--           {1, token, tokens, tickets waiting}  held; and the time (us) if the lock is one of several and was free
--           {3, token, slots, tickets waiting}  a permit is held
--           {0, fencing counter, position, length of the queue, place, TTL, time,
--            owner, inbox, token, since, trace of each holder}  queued, or busy
--           {4, fencing counter, position, length of the queue, place, ms until the first permit may end, time,
--            the field of each permit: see permits.lua}  the same for a permit
--           {-1}  refused: the id is over      {2}  to be run again: there was more to do than one run does
--           UNTRUSTED, an error, before the first write: see quarantine.lua
-- Rules 2, 4, 5, 11, 12, 22, 24, 25 and 26 of docs/protocol.md.
--@quarantine
local call, fence = redis.call, KEYS[4]
if not may_grant() then return UNTRUSTED end
--@fast_acquire_{kind}
--@{kind}
--@entry_{kind}
local id, lease, keep, kept, predecessor = ARGV[1], ARGV[2], ARGV[14] or '0', KEYS[9], ARGV[11] or ''

local h = read_hold()
if h and h.err then return h end
-- Errors of type have to come before the first write.
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
  settle(after)
  return {-1}
end
local has = extend(h, id, lease) or take(h, place)
if has then return has end

if ARGV[5] ~= '0' then
  local text, calls, alone = place and call('HGET', KEYS[3], id), ARGV[15] or '1', call('EXISTS', KEYS[2]) == 0
  if not place then
    place = place_in_queue(ARGV[12], keep, kept)
    enter(place)
    text = ticket_text()
    if keep ~= '0' then write_kept_place(kept, place, keep) end
  end
  if text then call('HSET', KEYS[3], id, with_calls(text, calls)) end
  if alone then mark_active() end -- else those who poll have the queue live
  tell_holders(h, true)
elseif ARGV[10] == '1' then
  tell_holders(h, false)
end
if has_room(h) then
  if settle(after) then return {2} end
  h = read_hold()
  has = extend(h, id, lease) or take(h, place) -- all tickets were dead, or have been granted
  if has then return has end
end
if keep ~= '0' and not place then write_kept_place(kept, place_in_queue(ARGV[12], keep, kept), keep) end
local position = call('ZRANK', LINE, id)
place = math.max(0, math.min(tonumber(place) or 0, MAX)) -- a score that no script wrote may be infinite
return {BUSY, last_token(), position and position + 1 or 0, count_waiting(), place, describe(h)}
