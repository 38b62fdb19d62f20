-- Notes that a tick of a job was run. It does not matter which hold has the lock by now: the run has finished. A repeated or
-- late execution does no harm. Each execution writes, so that replicas have something to acknowledge.
--   KEYS 1 tick: only one key, as for renew.lua
--   ARGV 1 token of the hold that ran the tick  2 TTL of the mark (ms)
--   returns 1  done      2  done, and a later hold has begun the tick
-- Rules 20 and 21 of docs/protocol.md.
--@tick
local call = redis.call
local state, first, second = read_tick(KEYS[1])
if state == false then return NOT_A_TICK end
if not state then first, second = ARGV[1], '' end
call('PEXPIRE', KEYS[1], ARGV[2]) -- a full memory refuses neither this write nor the next one
if state ~= 'ran' then call('SET', KEYS[1], 'ran ' .. first .. (second ~= '' and ' ' .. second or ''), 'PX', ARGV[2]) end
return tonumber(second ~= '' and second or first) > tonumber(ARGV[1]) and 2 or 1
