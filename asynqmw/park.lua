-- Puts a task that met a busy lock on the list of that lock, or lets it wait in its worker. Harmless when repeated.
--   KEYS 1 list: ids of tasks, by when they came first  2 lists: the locks that have a list  3 task  4 pending tasks
--   ARGV 1 id of the task      2 nonce, which the task's last error will have      3 lock
--        4 how long the list lasts (ms)      5 state that the task must be in
--        6 1: it may wait in its worker, if it was called or is the first, and no task waits for a worker
--        7 1: it may be parked only if it was called      2: it may not be parked      0: it may
--   returns {what, rank in the list, 1 if it was called from the list}; what is
--        0  unknown: no such task is here in that state      1  it waits in its worker      2  parked
--        3  refused because of ARGV 7      4  it belongs to a group and cannot be called
local call, id = redis.call, ARGV[1]
local task = call('HMGET', KEYS[3], 'state', 'group', 'lockmw')
if task[1] ~= ARGV[5] then return {0, 0, 0} end
if task[2] and task[2] ~= '' then return {4, 0, 0} end
local since = task[3] and string.match(task[3], ' (%d+)$')
local called = since and not call('ZSCORE', KEYS[1], id)
if ARGV[6] == '1' and (called or call('ZCARD', KEYS[1]) == 0) and call('LLEN', KEYS[4]) == 0 then
  return {1, 0, called and 1 or 0}
end
if ARGV[7] == '2' or (ARGV[7] == '1' and not called) then return {3, 0, 0} end
if not since then
  local now = call('TIME')
  since = string.format('%.0f', now[1] * 1000000 + now[2])
end
call('HSET', KEYS[3], 'lockmw', ARGV[2] .. ' ' .. since)
call('ZADD', KEYS[1], since, id)
call('PEXPIRE', KEYS[1], ARGV[4])
call('SADD', KEYS[2], ARGV[3])
call('PEXPIRE', KEYS[2], ARGV[4])
return {2, call('ZRANK', KEYS[1], id), called and 1 or 0}
