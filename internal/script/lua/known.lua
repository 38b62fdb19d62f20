-- Notes since when a server has been known by a replication id, and the longest quarantine of its clients. A repeated execution
-- does no harm.
--   KEYS 1 note      ARGV 1 replication id  2 the client's quarantine (ms)
--   returns {how long the id has been known (ms), longest quarantine (ms)}, or {-1} if the server has another id
-- Rule 22 of docs/protocol.md.
local call = redis.call
local MONTH = 30 * 24 * 60 * 60 * 1000 -- ms
if not string.find(call('INFO', 'replication'), 'master_replid:' .. ARGV[1] .. '\r', 1, true) then return {-1} end
local time = call('TIME')
local now = math.floor(time[1] * 1000 + time[2] / 1000)
local since, longest = string.match(call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
since, longest = tonumber(since or now), math.max(tonumber(longest or 0), tonumber(ARGV[2]))
call('SET', KEYS[1], string.format('%.0f %.0f', since, longest), 'PX', MONTH) -- if the note is lost, the next client waits once more
return {now - since, longest}
