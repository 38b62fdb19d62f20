-- Reads whether anything has changed for tickets of any locks and semaphores. It writes nothing and decides nothing: a poll
-- follows if something has changed.
--   KEYS 1 fencing counter; then for each ticket: holder, the queue of the ticket
--   ARGV the id of each ticket
--   returns {fencing counter, for each ticket: position in the queue, time left (ms), token of the holder, state}
--     position: 0 if the ticket is not in the queue
--     time left: how long the lock stays taken without another command. 0 if it is free, -1 if it never expires. For readers and
--       permits: until the first of them ends
--     token: 0 if there is none; permits share none
--     state: 1 the hold has ended, and its minimum hold keeps the key taken  2 readers hold the lock  3 the ticket was granted the
--       lock and holds it alone: its position is 0  0 anything else
-- Rules 6 and 7 of docs/protocol.md.
local fence = KEYS[1]
--@limits
--@fence
local answers, n = {last_token() or -1}, 1
for i, id in ipairs(ARGV) do
  local holder, position = KEYS[2 * i], redis.pcall('ZRANK', KEYS[2 * i + 1], id)
  local f = redis.pcall('HMGET', holder, 'token', 'id', 'next')
  local token, ends, left, state = to_number(f[1]) or 0, f[3], 0, 0
  position = type(position) == 'number' and not f.err and position + 1 or 0
  if f[2] == id and not ends then
    position, state = 0, 3
  elseif token > 0 and ends then
    state = 2
  elseif f[2] == '-' then
    state = 1
  end
  if position > 0 or state == 3 then
    left = ends and math.max((to_number(ends) or 0) - now_ms, 0) or call('PTTL', holder)
    if left == -2 then left = 0 end
  end
  answers[n + 1], answers[n + 2], answers[n + 3], answers[n + 4] = position, left, token, state
  n = n + 4
end
return answers
