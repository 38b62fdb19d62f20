-- The state of a task for the scripts of lockmw. This text is put in front of the other scripts.
--   signs(prefix .. id) returns a table with the state of the task and the fields of its sign; letter is nil if it has no sign
--   stored(task, id, retry, archived) returns the set in which asynq keeps the task because of its busy lock; otherwise nil
-- The sign is the task's field lockmw: "<letter><more><till> <since> <began> <due>".
--   letter  w: it waits for its lock in its worker   p: it is parked   c: it was woken
--   more    C: it had been woken before   A: this was its last attempt, so asynq archives it
--   till    the end of its way (µs): to a worker (c), or back into the queue (w and p)
--   since   when it first met its lock (µs)
--   began   when its last attempt began (µs), by the clock of its process
--   due     when asynq retries it if nothing wakes it (s), by the same clock
-- A task with nested locks may be on the lists of several, but its sign is about the last one that it met. The field lockmw_lock is
-- "<began> <lock>". It does not count with another began: older processes do not write it. Without it, lock is nil or false.
-- asynq stores with each task when it is due again, or when it was archived. This distinguishes a parked task from a task that
-- has failed since. asynq's public interface lets a handler choose no other value that is stored with a task.
local function signs(key)
  local t = redis.call('HMGET', key, 'state', 'lockmw', 'lockmw_back', 'lockmw_lock')
  local letter, more, till, since, began, due = string.match(t[2] or '', '^(%l)(%u*)(%d+) (%d+) (%d+) (%d+)$')
  local at, lock = string.match(t[4] or '', '^(%d+) (.*)$')
  return {
    state = t[1], back = t[3], letter = letter, woken = letter == 'c', last = letter and string.find(more, 'A', 1, true),
    again = letter and string.find(more, 'C', 1, true), till = tonumber(till or 0), since = since,
    began = began, due = tonumber(due), lock = at == began and lock,
  }
end
local function stored(task, id, retry, archived)
  if task.letter ~= 'p' and task.letter ~= 'w' then return nil end
  local set, first, last
  if task.state == 'retry' then
    set, first, last = retry, task.due, task.due + 5 -- later if its process stood still
  elseif task.state == 'archived' and task.last and task.back ~= task.began then
    set, first, last = archived, math.floor(task.began / 1000000), task.due
  end
  local score = set and (redis.call('ZSCORE', set, id) or -1) + 0
  return score and score >= first and score <= last and set or nil
end
