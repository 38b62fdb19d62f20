-- Ends an id as cancel.lua does, and makes the run void that its acquire may have begun. A repeated execution does no harm.
--   KEYS  those of cancel.lua      last: record
--   ARGV  those of cancel.lua      then: run
--   returns as cancel.lua
-- Rules 2, 3 and 28 of docs/protocol.md.
--@quarantine
--@record
end_record(table.remove(KEYS), table.remove(ARGV), 'void', nil, nil, nil, ARGV[1])
--+/cancel
