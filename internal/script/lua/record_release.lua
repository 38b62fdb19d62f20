-- Ends a run of a key's work as record_end.lua does, and then the hold as release.lua does. A repeated execution does no harm.
--   KEYS  as in release.lua      last: record
--   ARGV  as in release.lua      then: run  outcome  TTL of the record (ms)  status  answer
--   returns {answer of record_end.lua, answer of release.lua}
-- Rules 21 and 28 of docs/protocol.md.
--@quarantine
--@record
local record, run, outcome, ttl, status, answer = table.remove(KEYS), unpack(ARGV, #ARGV - 4)
for _ = 1, 5 do table.remove(ARGV) end
local ended = end_record(record, run, outcome, ttl, status, answer, ARGV[1])
if type(ended) == 'table' then return ended end
local function release()
--+/release
end
return {ended, release()}
