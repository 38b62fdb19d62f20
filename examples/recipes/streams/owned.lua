-- Sets how long messages have been idle, as far as the consumer still owns them, and returns those.
--   KEYS[1] stream   ARGV[1] group   ARGV[2] consumer   ARGV[3] idle time in ms   ARGV[4…] ids
local owned = {}
for i = 4, #ARGV do
	local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
	if #pending > 0 then
		redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'IDLE', ARGV[3], 'JUSTID')
		owned[#owned + 1] = ARGV[i]
	end
end
return owned
