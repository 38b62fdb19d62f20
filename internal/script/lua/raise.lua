-- Raises the fencing counter to a token that a process has seen, because the server may have lost it. A repeated execution does
-- no harm.
--   KEYS 1 holder: a proxy finds the server by it  2 fencing counter
--   ARGV 1 token  2 how far it may be ahead of the server's clock (us)
--        optional: 3 if present, the counter is written even if the clock is ahead of the token, because the clock may be set back
--        optional: 4 id of a hold  5 the token that this hold must show, because nodes may have given different ones
--   returns 1  the next token is greater      the time (us), as text  nothing was done: the token is too far ahead
-- Rules 18 and 24 of docs/protocol.md.
local fence = KEYS[2]
--@limits
--@fence
local last, token = last_token(), to_number(ARGV[1])
if not last then return counter_error() end
if not token then return {err = 'WRONGTYPE the token is not a number below 2^53'} end
if token > last and (token >= now_us or ARGV[3]) then
  if token > now_us + tonumber(ARGV[2]) then return digits(now_us) end
  call('SET', fence, ARGV[1])
end
if ARGV[4] and redis.pcall('HGET', KEYS[1], 'id') == ARGV[4] then
  local given = call('HGET', KEYS[1], 'token')
  if given ~= ARGV[5] then call('HSET', KEYS[1], 'token', ARGV[5], 'since', call('HGET', KEYS[1], 'since') or given) end
end
return 1
