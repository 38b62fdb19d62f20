-- Part of acquire.lua: fast paths to a lock in the usual cases. They define no function that is not called, and numbers stay
-- strings. All other cases fall through to the rest of the script, before the first write. The number of these keys that exist
-- tells the cases apart.
local existing = ARGV[6] ~= 'read' and call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[7])
if not ARGV[7] and existing == 0 then
  -- The lock is free, and no ticket waits. The clock is ahead of the counter, and far below the greatest token.
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
