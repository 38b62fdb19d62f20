-- Puts a task back into the retry set that asynq has archived after its last attempt, although only its lock was busy. A
-- repeated execution does no harm.
--   KEYS 1 task  2 archive of asynq  3 retry set of asynq  4 tasks processed on a day  5 tasks failed on that day
--        6 tasks processed  7 tasks failed
--   ARGV 1 id of the task      2 when the attempt began (µs)      3 when it is due (s)
--        4 day of KEYS 4 and 5, counted from 1970      5 1: it was parked in that attempt      0: it was not
--   returns 1 if it was put back, 2 if it is still active, 0 if there is nothing to put back
-- The field lockmw_back of the task is ARGV 2 of its last restore, because an operator may archive the task later.
local call, id = redis.call, ARGV[1]
local task = signs(KEYS[1])
if task.back == ARGV[2] or ARGV[5] == '1' and task.began ~= ARGV[2] then return 0 end -- or it was woken, and a new attempt has begun
if task.state == 'active' then return 2 end
local archived_at = (call('ZSCORE', KEYS[2], id) or -1) + 0
if task.state ~= 'archived' or archived_at < math.floor(ARGV[2] / 1000000) then return 0 end
call('ZADD', KEYS[3], ARGV[3], id)
call('HSET', KEYS[1], 'state', 'retry', 'lockmw_back', ARGV[2])
call('ZREM', KEYS[2], id)
if math.floor(archived_at / 86400) == tonumber(ARGV[4]) then -- asynq has counted a failure
  for i = 4, 7 do
    if tonumber(call('GET', KEYS[i]) or 0) > 0 then call('DECR', KEYS[i]) end
  end
end
return 1
