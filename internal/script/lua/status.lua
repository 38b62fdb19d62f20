-- Reads everything that is stored for one lock, for people who inspect it. It writes nothing.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers  6 see alive.lua  7 queue of permits
--        8 tickets for permits  9 record  10… kept places
--   returns {seconds, microseconds of the clock, TTL of the holder in ms, {its fields and values},
--            {tickets and places} of each of the three queues, {tickets and their texts}, {the same for permits},
--            {inbox of each waiting process, its entry as alive.lua describes it},
--            {place, TTL in ms of each kept place; '' if there is none},
--            record without its run, request and answer: see record.lua; '' if there is none, bytes of the answer,
--            TTL of the record}
local call, now = redis.call, redis.call('TIME')
local queues, noted, kept = {}, {}, {}
for i, key in ipairs({KEYS[2], KEYS[5], KEYS[7]}) do queues[i] = call('ZRANGE', key, 0, -1, 'WITHSCORES') end
noted[1] = #queues[1] + #queues[2] > 0 and call('HGETALL', KEYS[3]) or {}
noted[2] = #queues[3] > 0 and call('HGETALL', KEYS[8]) or {}
local seen, asked = {}, {}
for _, fields in ipairs(noted) do
  for i = 2, #fields, 2 do
    local inbox = string.match(fields[i], '^[^ ]+ [^ ]+ [^ ]+ ([^ ]+)')
    if inbox and not asked[inbox] then
      asked[inbox], seen[#seen + 1], seen[#seen + 2] = true, inbox, call('HGET', KEYS[6], inbox) or ''
    end
  end
end
for i = 10, #KEYS do
  local place = redis.pcall('GET', KEYS[i])
  kept[#kept + 1], kept[#kept + 2] = type(place) == 'string' and place or '', call('PTTL', KEYS[i])
end
local record, answer, left = redis.pcall('GET', KEYS[9]), 0, 0
if record then
  if type(record) ~= 'string' or record == '' then record = 'foreign' end
  local head = string.match(record, '^done ' .. string.rep('%S+ ', 10))
  if head then
    answer = #record - #head
    record = head
  end
  record = string.gsub(record, '^(%l+) %S+ (%d+) %S+ ', '%1 - %2 - ')
  left = call('PTTL', KEYS[9])
end
return {
  now[1], now[2], call('PTTL', KEYS[1]), call('HGETALL', KEYS[1]), queues[1], queues[2], queues[3], noted[1], noted[2], seen, kept,
  record or '', answer, left,
}
