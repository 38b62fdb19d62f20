-- Renews the lease of one hold; a lease is never shortened.
--   KEYS 1 holder  2 queue      ARGV 1 id  2 lease (ms)
--   returns {1, others waiting}  renewed      {0}  not held by this id
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then return {0} end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {1, redis.call('ZCARD', KEYS[2])}
