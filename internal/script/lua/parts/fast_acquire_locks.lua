-- Part of acquire.lua: the usual ways to a lock, in less time. No function is defined that is not called, and digits stay strings. Whatever is not
-- usual is left to the rest, before the first write.
-- How many of these keys exist tells what there is.
local there = ARGV[6] ~= 'read' and call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[7])
if not ARGV[7] and there == 0 then
  -- The lock is free, and nobody waits. The counter lies behind the clock, and that is far from the last token.
  local time, last = call('TIME'), redis.pcall('GET', fence)
  local token = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  if token < '9' and (not last or (#last == #token and last < token and not string.find(last, '%D'))) then
    call('SET', fence, token)
    local key, id, lease, inbox, owner, fields = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6] and {'mode', ARGV[6]} or {}
    --+holder
    return token
  end
end
--@limits
--@fast_vote
--@publish
--@fast_queue
