-- Makes a server refuse commands of a script.
local redis = (function(server)
  local refusal, refused = '%[1]s', {}
  for command in string.gmatch('%[2]s', '%%u+') do refused[command] = true end
  return {
    call = function(...)
      if refused[...] then error(refusal) end
      return server.call(...)
    end,
    pcall = function(...)
      if refused[...] then return {err = refusal} end
      return server.pcall(...)
    end,
    sha1hex = server.sha1hex,
  }
end)(redis)
