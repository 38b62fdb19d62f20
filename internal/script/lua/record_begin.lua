-- Opens the record of a key for the hold that has the key's lock. A repeated execution does no harm.
--   KEYS 1 holder  2 record
--   ARGV 1 id  2 token of the hold      then the claim: see record_acquire.lua
--   returns {1, record: see record.lua}  open for the run      {0, record}  not opened
--           {2, record}  a later run has begun                   {-1}  the id does not hold the lock
--           the record is '' if there is none
-- Rules 21 and 28 of docs/protocol.md.
--@record
local claim = pop_claim()
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then
  --+not_held
  return {-1}
end
local r = read_record(redis.pcall('GET', KEYS[2]))
if r.err then return r end
local code = open_record(KEYS[2], r, claim, ARGV[2])
return {code, r.text or ''}
