-- Puts a task back to be retried that asynq has archived, as it was on its last attempt, although only its lock was
-- busy. Harmless when repeated.
--   KEYS 1 task  2 archived tasks  3 tasks to be retried  4 how many were processed on a day  5 how many of them failed
--        6 how many were processed  7 how many of them failed
--   ARGV 1 id of the task      2 when the attempt began (µs)      3 when it is due (s)
--        4 day of KEYS 4 and 5, counted from 1970      5 1: it was parked in that attempt      0: it was not
--   returns 1 if it was put back, 2 if it is still active, 0 if there is nothing to put back
-- The field lockmw_back of the task is ARGV 2 of its last restore: an operator may archive it later.
local call, id = redis.call, ARGV[1]
local task = signs(KEYS[1])
if task.back == ARGV[2] or ARGV[5] == '1' and task.began ~= ARGV[2] then return 0 end -- or it was woken, and has begun anew
if task.state == 'active' then return 2 end
local died = (call('ZSCORE', KEYS[2], id) or -1) + 0
if task.state ~= 'archived' or died < math.floor(ARGV[2] / 1000000) then return 0 end
call('ZADD', KEYS[3], ARGV[3], id)
call('HSET', KEYS[1], 'state', 'retry', 'lockmw_back', ARGV[2])
call('ZREM', KEYS[2], id)
if math.floor(died / 86400) == tonumber(ARGV[4]) then -- asynq has counted a failure
  for i = 4, 7 do
    if tonumber(call('GET', KEYS[i]) or 0) > 0 then call('DECR', KEYS[i]) end
  end
end
return 1
