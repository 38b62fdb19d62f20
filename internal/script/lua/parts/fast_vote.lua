-- Part of acquire.lua: the fast path for the usual vote. The lock is over several nodes and free here, no ticket waits, and all
-- tokens wanted are available, beginning with the proposed one or with the time. It does the same as the rest of the script,
-- but defines no function, and numbers stay strings. All other cases fall through to the rest, before the first write.
local token = ARGV[9]
if token and token ~= '' and not ARGV[11] and ARGV[6] == 'exclusive' and existing == 0 then
  local time, last = call('TIME'), redis.pcall('GET', fence)
  local now, first, count = time[1] * 1000000 + time[2], tonumber(token), tonumber(ARGV[7])
  if first <= now then first, token = now, time[1] .. string.sub('000000', #time[2] + 1) .. time[2] end
  if #token == 16 and first < 2 ^ 52 and first + count <= now + AHEAD
    and (not last or #last == 16 and last < token and not string.find(last, '%D')) then
    call('SET', fence, count > 1 and string.format('%.0f', first + count - 1) or token)
    local key, id, lease, inbox, owner, mode, trace = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6], ARGV[8]
    local since, waits, calls = first > now + SINCE and string.format('%.0f', now), false, 1
    --+holder_fields
    --+holder
    return {1, first, count, 0, now}
  end
end
