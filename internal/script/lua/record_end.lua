-- Ends a run of a key's work, whoever holds the lock by now. A repeated or late execution does no harm.
--   KEYS 1 record
--   ARGV 1 run  2 outcome  3 TTL of the record (ms)  4 status  5 answer: the last three only to keep an answer
--   returns 1  the record is the run's, and has its answer if one was to be kept      0  it is not: nothing was written
-- Rules 21 and 28 of docs/protocol.md.
--@record
return end_record(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
