-- Takes a lock, or queues a ticket, as acquire.lua does, and opens the record of the key in the same execution. If the record
-- decides alone what the call gets, no lock is taken. A repeated execution does no harm.
--   KEYS  as in acquire.lua      last: record
--   ARGV  as in acquire.lua      then of the claim: run  fingerprint  how many runs may never return, if an open run may be
--         replaced; otherwise 0  TTL of the record (ms)
--   returns as acquire.lua, except for these:
--           record: see record.lua  decided: no lock was taken
--           {6, token, tickets waiting, whether the record is open for the run: see record.lua, earlier,
--            token of the record}  held
-- Rules 19, 21 and 28 of docs/protocol.md.
--@quarantine
local record = table.remove(KEYS)
local text = redis.pcall('GET', record)
-- Most repetitions end here, so no function is defined before.
if type(text) == 'string' and string.sub(text, 1, 5) == 'done ' then return text end
--@record
local r, claim = read_record(text), pop_claim()
if r.err then return r end
if is_settled(r, claim.print) then return text end
local function acquire()
--+/acquire
end
local held = acquire()
if type(held) == 'string' then held = {1, held, 1, 0} end
if held[1] ~= 1 then return held end
local opened = open_record(record, r, claim, held[2])
return {6, tonumber(held[2]), held[4], opened, tonumber(r.earlier), tonumber(r.token)}
