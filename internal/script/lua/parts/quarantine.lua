-- Part of the scripts that may grant a lock, if the client has a quarantine (rule 22 of docs/protocol.md). The last of ARGV is
-- the replication id that the client trusts. A server that may have lost locks has another id.
local trusted_id = table.remove(ARGV)
local trusted
local UNTRUSTED = {err = 'UNTRUSTED this server may have lost locks'}

-- Returns whether this server is a master with the id that the client trusts.
local function may_grant()
  if trusted == nil then
    local info = redis.call('INFO', 'replication')
    trusted = string.find(info, 'master_replid:' .. trusted_id .. '\r', 1, true) ~= nil
    if not string.find(info, 'role:master\r', 1, true) then
      trusted = false
      UNTRUSTED.err = 'READONLY this server is a replica' -- this word makes the client look for the master
    end
  end
  return trusted
end
