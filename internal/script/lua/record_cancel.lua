-- Ends an id as cancel.lua does, and makes the run void that its acquire, or a late copy of it, may have begun. A repeated execution
-- does no harm.
--   KEYS  as in cancel.lua      last: record
--   ARGV  as in cancel.lua      then: run  token of the record since the run has begun, 0 if it has not
--   returns as cancel.lua
-- Rules 2, 3 and 28 of docs/protocol.md.
--@quarantine
--@record
local begun, run = table.remove(ARGV), table.remove(ARGV)
end_record(table.remove(KEYS), run, 'void', nil, nil, nil, ARGV[1], begun)
--+/cancel
