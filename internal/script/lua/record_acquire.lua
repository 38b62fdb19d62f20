-- Takes a lock, or queues a ticket, as acquire.lua does, and opens the record of the key in the same execution. If the record
-- decides alone what the call gets, no lock is taken. A repeated execution does no harm.
--   KEYS  as in acquire.lua      last: record
--   ARGV  as in acquire.lua      then of the claim: run  fingerprint  whether to replace an open run (1 or 0)
--         how many runs may never return  TTL of the record (ms)
--   returns as acquire.lua, except for these:
--           {5, record: see record.lua}  decided: no lock was taken
--           {6, token, tickets waiting, whether the record is open for the run: see record.lua, earlier,
--            token of the record}  held
-- Rules 19, 21 and 28 of docs/protocol.md.
--@quarantine
--@record
local record, claim = table.remove(KEYS), pop_claim()
local r = read_record(record)
if r.err then return r end
if is_settled(r, claim.print) then return show_record(5, r) end
local function acquire()
--+/acquire
end
local held = acquire()
if type(held) == 'string' then held = {1, held, 1, 0} end
if held[1] ~= 1 then return held end
local opened = open_record(record, r, claim, held[2])
return {6, tonumber(held[2]), held[4], opened, r.earlier, r.token}
