-- Part of the scripts that deal with the record of a key, which says whether the key's work was done: a hash with its state
-- ('open' or 'done'; none if it was forgotten), its run, the run's token, the fingerprint of the request, how many runs before
-- left no outcome ('earlier') and how many of these never returned ('silent'), whether the run has returned, its times (us), the
-- id of its hold, and the answer with its status.
-- Rule 28 of docs/protocol.md.
local function read_record(key)
  local f = redis.pcall('HMGET', key, 'state', 'run', 'token', 'print', 'earlier', 'silent', 'returned', 'began', 'id', 'answer')
  if f.err then return {err = 'WRONGTYPE the key does not contain a record'} end
  return {
    state = f[1] or '', run = f[2] or '', token = tonumber(f[3] or 0), print = f[4] or '',
    earlier = tonumber(f[5] or 0), silent = tonumber(f[6] or 0), returned = f[7] == '1', began = tonumber(f[8] or 0), id = f[9],
    answer = f[10] or '',
  }
end

local function time_us()
  local time = redis.call('TIME')
  return time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
end

-- Returns whether the record decides alone what a call gets: it has the answer, or belongs to another request.
local function is_settled(r, print) return r.state == 'done' or r.state == 'open' and r.print ~= print end

-- Opens the record for a run whose lock has that token, unless its state forbids that. ARGV[1] is the id of the hold. Returns 1 if
-- the record is open for the run, 2 if a later run has begun, and 0 otherwise. A repeated execution changes nothing, but writes, so
-- that replicas have a write to acknowledge.
local function open_record(key, r, claim, token)
  if r.state == 'open' and r.run == claim.run then
    redis.call('PEXPIRE', key, claim.ttl)
    redis.call('HSET', key, 'id', ARGV[1]) -- the call may have asked again, under another id
    return 1
  end
  if is_settled(r, claim.print) then return 0 end
  if tonumber(token) <= r.token then return 2 end
  if r.state == 'open' then
    local silent = r.silent + (r.returned and 0 or 1)
    if claim.over ~= '1' or silent >= tonumber(claim.most) then return 0 end
    r.earlier, r.silent = r.earlier + 1, silent
  end
  -- A full memory refuses this write, and none after it.
  redis.call('HSET', key, 'state', 'open', 'run', claim.run, 'token', token, 'print', claim.print,
    'earlier', r.earlier, 'silent', r.silent, 'began', time_us(), 'returned', '', 'id', ARGV[1])
  redis.call('PEXPIRE', key, claim.ttl)
  r.state, r.run, r.token, r.print, r.returned = 'open', claim.run, tonumber(token), claim.print, false
  return 1
end

-- Ends a run: 'keep' records its answer, 'forget' makes the next run like the first, 'leave' says that its outcome is unknown, and
-- 'void' that it does not work under that id. If it does, `begun` is the record's token since it has begun: then only a later begin
-- by a late copy is void. Returns whether the record is the run's, and 'keep' whether it has the answer. A full memory refuses no
-- write after the first one.
local function end_record(key, run, outcome, ttl, status, answer, id, begun)
  local r = read_record(key)
  if r.err then return r end
  if r.run ~= run or r.state == '' then return 0 end
  -- A recorded answer is final: it may be the one that another process has found out for the run.
  if r.state == 'done' and (outcome ~= 'keep' or r.answer ~= answer) then return 0 end
  if outcome == 'void' and (r.id ~= id or r.returned or r.token == tonumber(begun or 0)) then return 0 end
  if outcome == 'keep' then
    redis.call('PEXPIRE', key, ttl)
  else
    redis.call('HDEL', key, '')
  end
  if r.state == 'done' then return 1 end
  if outcome == 'keep' then
    redis.call('HSET', key, 'state', 'done', 'ended', time_us(), 'status', status, 'answer', answer)
  elseif outcome == 'leave' then
    redis.call('HSET', key, 'returned', '1')
  elseif outcome == 'void' and r.earlier > 0 then
    -- The outcome of the run that it has replaced is still unknown. No copy of a command may take the record for the void run's.
    redis.call('HSET', key, 'run', run .. '-void', 'returned', '1', 'earlier', r.earlier - 1)
  else
    redis.call('HDEL', key, 'state', 'run', 'print', 'began', 'returned', 'id')
  end
  return 1
end

-- Returns a record for an answer, after `code`.
local function show_record(code, r)
  return {code, r.state, r.run, r.token, r.print, r.earlier, r.silent, r.returned and 1 or 0, r.began, r.answer}
end

-- Takes the arguments of a claim off the end of ARGV.
local function pop_claim()
  local claim, n = {}, #ARGV
  claim.run, claim.print, claim.over, claim.most, claim.ttl = unpack(ARGV, n - 4)
  for i = n, n - 4, -1 do ARGV[i] = nil end
  return claim
end
