-- Puts a task that met a busy lock on the list of that lock, and parks it or lets it wait in its worker. Harmless when
-- repeated.
--   KEYS 1 list: ids of tasks, by when they came first  2 lists: the locks that have a list  3 task  4 pending tasks
--   ARGV 1 id of the task, which is active      2 nonce, which the task's last error will have      3 lock
--        4 how long the list lasts (ms)      5 how long the task has waited so far (µs)
--        6 how long it may wait in its worker (µs), if it was called or is the oldest, and no other task waits for a worker
--        7 1: it may be parked only if it was called      0: it may be parked
--        8 1: asynq archives it, as this is its last attempt      0: asynq retries it
--        9 what the keys of tasks begin with      10 1: it waits for no older task that is on its way      0: it does
--   returns {what, rank in the list, 1 if it was called from the list}; what is
--        0  unknown: no such task is active here      1  it waits in its worker      2  parked
--        3  refused because of ARGV 7      4  it belongs to a group and cannot be called
--        5  to be asked again: an older task was called, and is to wait first
-- The field lockmw of the task is: nonce, letters and time, when it came first. The first letter is c for a task that
-- was called, until that time; w for one that waits in its worker until then; p for one that leaves its worker until
-- then. C follows if it had been called, A if asynq archives it.
local call, id = redis.call, ARGV[1]
local task = call('HMGET', KEYS[3], 'state', 'group', 'lockmw')
if task[1] ~= 'active' then return {0, 0, 0} end
if task[2] and task[2] ~= '' then return {4, 0, 0} end
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local nonce, letters, since = string.match(task[3] or '', '^(%S+) (%a+)%d+ (%d+)$')
local called = since and (letters == 'c' or nonce == ARGV[2] and string.find(letters, 'C', 1, true))
local stay = tonumber(ARGV[6]) > 0 and (called or call('ZCARD', KEYS[1]) == 0 or call('ZRANK', KEYS[1], id) == 0)
if stay then
  local older, pending = true, 0
  for _, other in ipairs(call('ZRANGE', KEYS[1], 0, 9)) do
    if other == id then older = false end
    local its = call('HMGET', ARGV[9] .. other, 'state', 'lockmw')
    local till = tonumber(string.match(its[2] or '', '^%S+ c(%d+) ') or 0)
    if till > 0 and its[1] == 'pending' then pending = pending + 1 end
    if older and till > now and (its[1] == 'pending' or its[1] == 'active') and ARGV[10] == '0' then return {5, 0, 0} end
  end
  stay = call('LLEN', KEYS[4]) <= pending
end
if not stay and ARGV[7] == '1' and not called then return {3, 0, 0} end
local sign = (stay and 'w' or 'p') .. (called and 'C' or '') .. (ARGV[8] == '1' and 'A' or '')
local till = now + (stay and ARGV[6] or 0) + 15000
since = since or string.format('%.0f', now - ARGV[5])
call('HSET', KEYS[3], 'lockmw', string.format('%s %s%.0f %s', ARGV[2], sign, till, since))
call('ZADD', KEYS[1], since, id)
call('PEXPIRE', KEYS[1], ARGV[4])
call('SADD', KEYS[2], ARGV[3])
call('PEXPIRE', KEYS[2], ARGV[4])
return {stay and 1 or 2, call('ZRANK', KEYS[1], id), called and 1 or 0}
