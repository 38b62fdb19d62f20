-- Ends one hold and grants the lock to the next live ticket. Those to whom the hold was passed leave the queue before
-- that. Harmless when repeated.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers
--        6 done mark of the id  7 kept place: both only if the arguments ask for them
--   ARGV 1 id
--        may follow: 2 for how long the key stays taken (ms), 0: not at all
--        3 for how long the id is marked as over (ms), because copies of its acquire may still arrive, 0: not
--          at all      4 for how long its kept place is marked as over (ms), 0: not at all
--        may follow: 5 and on  ids of the run of the hold, which were served
--   returns 1  released      2  released, and a poll is to be run at once      0  not held by this id
-- Rules 2, 5, 6 and 25 of docs/protocol.md.
--@quarantine
local call, id, fence = redis.call, ARGV[1], KEYS[4]
local reads, linger = call('HGET', KEYS[1], 'id') ~= id, ARGV[2] or '0'
local field = reads and linger ~= '0' and call('HGET', KEYS[1], 'reader:' .. id)
if reads and call('HDEL', KEYS[1], 'reader:' .. id) == 0 then return 0 end
local queued = nil -- the length of the queue, or an error if it is of another type
if not reads then queued = redis.pcall('ZCARD', KEYS[2]) end
if queued == 0 and not ARGV[2] then -- the common case
  call('DEL', KEYS[1])
  return 1
end
--@limits
--@publish
--@run
if ARGV[5] and (reads or type(queued) == 'number') then
  local fields = {}
  for i = 5, #ARGV do
    fields[#fields + 1] = ARGV[i]
    fields[#fields + 1] = '@' .. ARGV[i]
  end
  redis.pcall('HDEL', KEYS[3], unpack(fields))
  local gone = redis.pcall('ZREM', KEYS[2], unpack(ARGV, 5))
  if not reads and type(gone) == 'number' then -- a refused write is an error, and the next write ends the script with it
    queued = queued - gone
    if queued == 0 then redis.pcall('DEL', KEYS[3]) end
  end
end
--@fast_grant
if not reads then
  if linger ~= '0' then
    call('PEXPIRE', KEYS[1], linger)
    call('HSET', KEYS[1], 'id', '-', 'tokens', 1) -- no hold has this id: the key only expires
    call('HDEL', KEYS[1], 'waiters') -- they get a ticket
    -- Redis 7.0 looks at its clock again to set a time, and removes a key whose time is over by then, say of 1 ms. What was
    -- written after that would have no end.
    if call('PTTL', KEYS[1]) == -1 then call('DEL', KEYS[1]) end
  else
    call('DEL', KEYS[1])
  end
end
if ARGV[3] and ARGV[3] ~= '0' then call('SET', KEYS[6], 1, 'PX', ARGV[3]) end
if ARGV[4] and ARGV[4] ~= '0' then
  local kept = redis.pcall('GET', KEYS[7])
  if type(kept) == 'string' and not string.find(kept, '%D') then call('SET', KEYS[7], 0, 'PX', ARGV[4]) end
end
if not reads and (linger ~= '0' or queued == 0 or type(queued) == 'table') then return 1 end
--@fence
--@hold
--@readers
--@settle
if reads and linger ~= '0' then
  local inbox, owner, trace = string.match(field, '^%d+ %d+ ([^ ]*) ([^ ]*) ?([^ ]*)$')
  add_reader('-' .. id, call('HGET', KEYS[1], 'token'), linger, inbox or '-', '-' .. (owner or ''), trace or '')
end
if reads and reap_readers() then return 1 end
return settle(reads and 'read' or 'write', queued) and 2 or 1
