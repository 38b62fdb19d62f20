-- Begins a tick of a job for the hold that has the job's lock, unless the tick was run or is too far from now. A repeated
-- execution does no harm.
--   KEYS 1 holder  2 tick
--   ARGV 1 id  2 token of the hold  3 the tick (ms)  4 how far it may be from now (ms)  5 TTL of the note (ms)
--   returns one of these codes, and the time (us):
--           1  begun: run it      2  the tick was run      3  it is too far from now
--           4  it was begun twice, and neither run has finished      0  the id does not hold the lock
-- Rules 20 and 21 of docs/protocol.md.
--@tick
local call = redis.call
local time = call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local state, first, second = read_tick(KEYS[2])
if state == false then return NOT_A_TICK end
if call('HGET', KEYS[1], 'id') ~= ARGV[1] then
  --+not_held
  return {0, now}
end
if state == 'ran' then return {2, now} end
if first == ARGV[2] or second == ARGV[2] then -- a copy also writes: see mark.lua
  call('PEXPIRE', KEYS[2], ARGV[5])
  return {1, now}
end
if math.abs(tonumber(ARGV[3]) - tonumber(now) / 1000) > tonumber(ARGV[4]) then return {3, now} end
if state and second ~= '' then return {4, now} end
-- This is the first write: if a full memory refuses it, nothing runs.
call('SET', KEYS[2], (state and 'begun ' .. first or 'begun') .. ' ' .. ARGV[2], 'PX', ARGV[5])
return {1, now}
