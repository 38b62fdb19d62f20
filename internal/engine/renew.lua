-- Renews the lease of one hold; a lease is never shortened.
--   KEYS 1 holder: only one, as a script with several fails while a Cluster moves their slot      ARGV 1 id  2 lease (ms)
--   returns 1  renewed      2  renewed, and others wait      0  not held by this id
local h = redis.call('HMGET', KEYS[1], 'id', 'wanted')
if h[1] ~= ARGV[1] then return 0 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return h[2] and 2 or 1
