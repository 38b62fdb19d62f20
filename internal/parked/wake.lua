-- Wakes tasks on the list of a lock: moves them to the front of their queue. A task is woken only while asynq keeps it because
-- of that lock. If the attempt was its last, asynq has archived the task; if its process died, restore.lua may not have run.
-- Tasks that were woken or are active stay on the list until they get the lock or wait for another one; all others are removed
-- from it. A repeated execution does no harm.
--   KEYS 1 list: ids of tasks, by the time when they came first  2 lists: the locks that have a list
--        3 pending tasks  4 retry set of asynq  5 archive of asynq  6 mark of a paused queue
--   ARGV 1 prefix of the keys of tasks      2 lock      3 how many tasks should be on their way or wait for the lock
--        4 when: "anyway"; "ahead": only if no other task waits for a worker; "held": only if no older task waits for the lock
--        5 now (ns)      6 how long a woken task counts as on its way (µs)      7… tasks that have got the lock
--   returns {number of tasks left on the list or -1, 1 if another execution must follow immediately, number of woken tasks,
--        with "ahead": number of tasks that are on their way or wait}
-- sign.lua describes the fields lockmw and lockmw_lock.
local call = redis.call
for i = 7, #ARGV do call('ZREM', KEYS[1], ARGV[i]) end
if call('EXISTS', KEYS[6]) == 1 or ARGV[4] == 'ahead' and call('LLEN', KEYS[3]) > 0 then return {-1, 0, 0, 0} end
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local ahead, limit = ARGV[4] == 'ahead', tonumber(ARGV[3])
local chosen, coming, soon = {}, 0, 0
local ids = call('ZRANGE', KEYS[1], 0, 99)
for i, id in ipairs(ids) do
  if coming + #chosen >= limit then break end
  local task = signs(ARGV[1] .. id)
  local active, set = task.state == 'active', stored(task, id, KEYS[4], KEYS[5])
  local fresh = task.till > now -- otherwise it has got the lock, or its worker has died
  local waits = task.letter == 'w' and active and task.till - 15000 > now
  if task.lock and task.lock ~= ARGV[2] then -- it waits for another lock, and is on the list of that one
    call('ZREM', KEYS[1], id)
    soon = i == 100 and 1 or 0
  elseif task.state == 'pending' and (task.woken or task.letter == 'w' and fresh) or active and task.woken and fresh then
    -- It is on its way. If its server shut down while the task waited, it is at the front of its queue.
    if not ahead then break end
    coming = coming + 1
  elseif waits then
    if ARGV[4] == 'held' then break end
    if ahead then coming = coming + 1 end
  elseif (active or set == KEYS[5]) and fresh then -- it is on its way back into the queue
    soon = 1
    break
  elseif set then
    chosen[#chosen + 1] = {id, set, task}
  elseif not active then
    call('ZREM', KEYS[1], id)
    soon = i == 100 and 1 or 0
  end
end
for i = #chosen, 1, -1 do -- in reverse, so that the first one ends up in front
  local id, set, task = unpack(chosen[i])
  call('RPUSH', KEYS[3], id)
  call('ZREM', set, id)
  local sign = string.format('c%.0f %s %s %.0f', now + ARGV[6], task.since, task.began, task.due)
  call('HSET', ARGV[1] .. id, 'state', 'pending', 'pending_since', ARGV[5], 'lockmw', sign)
end
local left = call('ZCARD', KEYS[1])
if left == 0 then call('SREM', KEYS[2], ARGV[2]) end
return {left, #chosen == 0 and soon or 0, #chosen, coming + #chosen}
