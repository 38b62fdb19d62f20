-- Undoes reserve.lua.   KEYS[1] remaining stock   KEYS[2] set of buyers   ARGV[1] user
if redis.call('SREM', KEYS[2], ARGV[1]) == 1 then redis.call('INCR', KEYS[1]) end
return 1
