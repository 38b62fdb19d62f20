-- Ends a script after some writes, even if it would go on after an error. What is published counts as a
-- write. An expiry belongs to the write before it, because a Cluster only refuses a key that is not there.
local redis = (function(server)
  local left = tonumber('%[1]d')
  local writes = {SET = 1, DEL = 1, HSET = 1, HDEL = 1, ZADD = 1, ZREM = 1, PEXPIRE = 1, PUBLISH = 1, SPUBLISH = 1}
  local before
  local function count(command, key)
    if not writes[command] or command == 'PEXPIRE' and key == before then return end
    if left == 0 then error('ended after so many writes') end
    left, before = left - 1, key
  end
  return {
    call = function(...) count(...) return server.call(...) end,
    pcall = function(...) count(...) return server.pcall(...) end,
    sha1hex = server.sha1hex,
  }
end)(redis)
