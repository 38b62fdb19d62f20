-- Begins a tick of a job for the hold that has the job's lock, unless the tick was run or it is not the time for it.
-- Harmless when repeated.
--   KEYS 1 holder  2 tick
--   ARGV 1 id  2 token of the hold  3 the tick (ms)  4 how far it may be from now (ms)
--        5 for how long it is noted that it was begun (ms)
--   returns one of these, and the time (us):
--           1  begun: run it      2  it was run      3  it is too far from now
--           4  it was begun twice, and neither run has come to its end      0  not held by this id
-- Rules 20 and 21 of docs/protocol.md.
--@tick
local call = redis.call
local time = call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local what, first, second = read_tick(KEYS[2])
if what == false then return NOT_A_TICK end
if call('HGET', KEYS[1], 'id') ~= ARGV[1] then
  --+not_held
  return {0, now}
end
if what == 'ran' then return {2, now} end
if first == ARGV[2] or second == ARGV[2] then -- a copy, which writes, too: see mark.lua
  call('PEXPIRE', KEYS[2], ARGV[5])
  return {1, now}
end
if math.abs(tonumber(ARGV[3]) - tonumber(now) / 1000) > tonumber(ARGV[4]) then return {3, now} end
if what and second ~= '' then return {4, now} end
-- The first write: a full memory refuses it, and then nothing runs.
call('SET', KEYS[2], (what and 'begun ' .. first or 'begun') .. ' ' .. ARGV[2], 'PX', ARGV[5])
return {1, now}
