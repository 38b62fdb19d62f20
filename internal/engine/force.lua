-- Takes the lock away from the holder that an operator has seen, and passes it on.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter      ARGV 1 token  2 owner
--   returns 1  taken away      2  taken away, and a poll is to be run at once
--           0  held by nobody, or by another hold than that one
local fence = KEYS[4]
--@hold
--@settle
local h = holder()
if h and h.err then return h end
if not h or h[3] ~= tonumber(ARGV[1]) or h[2] ~= ARGV[2] then return 0 end
call('DEL', KEYS[1])
redis.pcall('PUBLISH', h[7], 'lost ' .. h[1])
return settle() and 2 or 1
