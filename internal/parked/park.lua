-- Puts a task that met a busy lock on the list of that lock. The task is parked, or waits in its worker first. A repeated
-- execution does no harm.
--   KEYS 1 list: ids of tasks, by the time when they came first  2 lists: the locks that have a list  3 task  4 pending tasks
--   ARGV 1 id of the task, which is active      2 lock      3 TTL of the list (ms)
--        4 when the attempt began, by the clock of its process (µs)      5 how long the task has waited since then (µs)
--        6 how long it may wait in its worker (µs), if it was woken or is the oldest, and no other task waits for a worker
--        7 1: it may be parked only if it was woken      0: it may be parked
--        8 1: asynq archives it, because this is its last attempt      0: asynq retries it
--        9 prefix of the keys of tasks      10 how long a task holds the lock (µs)      11 a random number below 1000
--   returns {action, when asynq retries it if nothing wakes it (s), 1 if it was woken}; the action is
--        0  unknown: no such task is active here      1  it waits in its worker, and is parked after that      2  parked
--        3  refused because of ARGV 7      4  it belongs to a group and cannot be woken
-- sign.lua describes the fields lockmw and lockmw_lock.
local call, id = redis.call, ARGV[1]
local task = signs(KEYS[3])
if task.state ~= 'active' then return {0, 0, 0} end
if (call('HGET', KEYS[3], 'group') or '') ~= '' then return {4, 0, 0} end
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local woken = task.woken or task.began == ARGV[4] and task.again
local stay = tonumber(ARGV[6]) > 0 and (woken or call('ZCARD', KEYS[1]) == 0 or call('ZRANK', KEYS[1], id) == 0)
if stay then
  local pending = 0 -- tasks that were woken together need no other worker
  for _, other in ipairs(call('ZRANGE', KEYS[1], 0, 9)) do
    local other_task = signs(ARGV[9] .. other)
    if other_task.woken and other_task.state == 'pending' then pending = pending + 1 end
  end
  stay = call('LLEN', KEYS[4]) <= pending
end
if not stay and ARGV[7] == '1' and not woken then return {3, 0, 0} end
local since = task.since or string.format('%.0f', now - ARGV[5])
call('ZADD', KEYS[1], since, id)
call('PEXPIRE', KEYS[1], ARGV[3])
call('SADD', KEYS[2], ARGV[2])
call('PEXPIRE', KEYS[2], ARGV[3])
-- If nothing wakes the task, it is retried at about twice the time after which its turn should have come.
local pause = math.max(15, math.min(450, 2 * call('ZRANK', KEYS[1], id) * ARGV[10] / 1000000))
local due = math.floor((ARGV[4] + ARGV[5]) / 1000000 + pause * (1 + ARGV[11] / 4000))
local letters = (stay and 'w' or 'p') .. (woken and 'C' or '') .. (ARGV[8] == '1' and 'A' or '')
local till = now + (stay and ARGV[6] or 0) + 15000
local sign = string.format('%s%.0f %s %s %.0f', letters, till, since, ARGV[4], due)
call('HSET', KEYS[3], 'lockmw', sign, 'lockmw_lock', ARGV[4] .. ' ' .. ARGV[2])
return {stay and 1 or 2, due, woken and 1 or 0}
