-- Notes that a tick of a job was run. It does not matter who has the lock by now: the run has come to its end.
-- Harmless when repeated, and when it comes late. Each run writes: replicas may be asked whether they have what it wrote.
--   KEYS 1 tick: only one key, as for renew.lua
--   ARGV 1 token of the hold that has run it  2 for how long the mark is kept (ms)
--   returns 1  done      2  done, and a later hold has begun the tick
-- Rules 20 and 21 of docs/protocol.md.
--@tick
local call = redis.call
local what, first, second = read_tick(KEYS[1])
if what == false then return NOT_A_TICK end
if not what then first, second = ARGV[1], '' end
call('PEXPIRE', KEYS[1], ARGV[2]) -- a full memory refuses neither this write nor the next
if what ~= 'ran' then
  call('SET', KEYS[1], 'ran ' .. first .. (second ~= '' and ' ' .. second or ''), 'PX', ARGV[2])
end
return tonumber(second ~= '' and second or first) > tonumber(ARGV[1]) and 2 or 1
