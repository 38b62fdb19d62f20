-- Puts a task back to be retried that asynq has archived, as it was on its last attempt, although only its lock was
-- busy. Harmless when repeated.
--   KEYS 1 task  2 archived tasks  3 tasks to be retried  4 how many were processed on a day  5 how many of them failed
--        6 how many were processed  7 how many of them failed
--   ARGV 1 id of the task      2 nonce, which its last error has      3 when it is due (s)
--        4 day of KEYS 4 and 5, counted from 1970
--   returns 1 if it was put back, 2 if it is still active, 0 if there is nothing to put back
-- The field lockmw_back of the task is the nonce that it was put back with: an operator may archive it later.
local call, id = redis.call, ARGV[1]
local task = call('HMGET', KEYS[1], 'state', 'msg', 'lockmw_back')
if task[1] == 'active' then return 2 end
local died = call('ZSCORE', KEYS[2], id)
if task[1] ~= 'archived' or task[3] == ARGV[2] or not died then return 0 end
if not string.find(task[2], '(' .. ARGV[2] .. ')', 1, true) then return 0 end
call('ZADD', KEYS[3], ARGV[3], id)
call('HSET', KEYS[1], 'state', 'retry', 'lockmw_back', ARGV[2])
call('ZREM', KEYS[2], id)
if math.floor(died / 86400) == tonumber(ARGV[4]) then -- asynq has counted a failure
  for i = 4, 7 do
    if tonumber(call('GET', KEYS[i]) or 0) > 0 then call('DECR', KEYS[i]) end
  end
end
return 1
