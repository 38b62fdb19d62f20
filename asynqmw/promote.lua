-- Moves tasks from the list of a lock to the front of their queue. A task is moved only while it is put back because
-- of that lock: its last error names the nonce that it was parked with; a copy, which has no error yet, has it in a
-- header. All others leave the list. Harmless when repeated.
--   KEYS 1 list: ids of tasks, by when they came first  2 lists: the locks that have a list
--        3 the task that was called last  4 pending tasks  5 tasks to be retried  6 scheduled tasks  7 mark of a paused queue
--   ARGV 1 what the keys of tasks begin with      2 lock      3 how many are to be moved
--        4 1: only if no task waits for a worker      5 now (ns)      6 how long a call is waited for (ms)
--   returns {how many were moved, how many are left in the list or -1, 1 if it is to be tried again at once}
local call = redis.call
if call('EXISTS', KEYS[7]) == 1 or (ARGV[4] == '1' and call('LLEN', KEYS[4]) > 0) then return {0, -1, 0} end
local before = call('GET', KEYS[3])
if before and call('HGET', ARGV[1] .. before, 'state') == 'pending' then return {0, -1, 0} end
local chosen, from, most = {}, {}, tonumber(ARGV[3])
for _, id in ipairs(call('ZRANGE', KEYS[1], 0, 99)) do
  local task = call('HMGET', ARGV[1] .. id, 'state', 'msg', 'lockmw')
  local nonce, set, sign = task[3] and string.match(task[3], '^%S+'), nil, nil
  if nonce and task[1] == 'retry' then set, sign = KEYS[5], '(' .. nonce .. ')' end
  if nonce and task[1] == 'scheduled' then set, sign = KEYS[6], nonce end
  if set and string.find(task[2], sign, 1, true) and call('ZSCORE', set, id) then
    chosen[#chosen + 1] = id
    from[#from + 1] = set
    if #chosen == most then break end
  elseif task[1] ~= 'active' then -- which is on its way back into the queue, or has got the lock
    call('ZREM', KEYS[1], id)
  end
end
for i = #chosen, 1, -1 do -- the first one is to be at the front
  local id = chosen[i]
  if i == #chosen then call('SET', KEYS[3], id, 'PX', ARGV[6]) end
  call('RPUSH', KEYS[4], id)
  call('ZREM', from[i], id)
  call('HSET', ARGV[1] .. id, 'state', 'pending', 'pending_since', ARGV[5])
  call('ZREM', KEYS[1], id)
end
local left = call('ZCARD', KEYS[1])
if left == 0 then call('SREM', KEYS[2], ARGV[2]) end
return {#chosen, left, #chosen == 0 and left > 0 and 1 or 0}
