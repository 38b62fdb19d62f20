-- What the scripts know of a task. This text stands in front of the other scripts.
--   signs(prefix .. id) returns nil if the task has no sign, otherwise a table with its fields
--   stored(task, id, retry, archived) returns the set in which asynq keeps the task because of its busy lock; otherwise nil
-- The sign is the task's field lockmw: "<letter><more><till> <since> <began> <due>".
--   letter  w: it waits in its worker for its lock   p: it is parked   c: it was woken
--   more    C: it had been woken before   A: this was its last attempt, so that asynq archives it
--   till    until when it is on its way: to a worker (c), or back into the queue (w and p) (µs)
--   since   when it first met its lock (µs)
--   began   when its last attempt began, and due, when it comes back by the clock (µs, s), by the clock of its process
-- asynq stores with each task when it is due again, or when it was archived. That tells a task that was parked from one that
-- has failed since: nothing else that asynq's public interface lets a handler choose is stored with a task.
local function signs(key)
  local t = redis.call('HMGET', key, 'state', 'lockmw', 'lockmw_back')
  local letter, more, till, since, began, due = string.match(t[2] or '', '^(%l)(%u*)(%d+) (%d+) (%d+) (%d+)$')
  return {
    state = t[1], back = t[3], letter = letter, woken = letter == 'c', last = letter and string.find(more, 'A', 1, true),
    again = letter and string.find(more, 'C', 1, true), till = tonumber(till or 0), since = since, began = began, due = tonumber(due),
  }
end
local function stored(task, id, retry, archived)
  if task.letter ~= 'p' and task.letter ~= 'w' then return nil end
  local set, first, last
  if task.state == 'retry' then
    set, first, last = retry, task.due, task.due + 1
  elseif task.state == 'archived' and task.last and task.back ~= task.began then
    set, first, last = archived, math.floor(task.began / 1000000), task.due
  end
  local score = set and (redis.call('ZSCORE', set, id) or -1) + 0
  return score and score >= first and score <= last and set or nil
end
