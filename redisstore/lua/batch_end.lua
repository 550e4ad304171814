end

local runs
runs, pos = unpack_at('>I2', args, pos)
local base, ids, out = 0, 1, { pack('>c8i8', args, now) }
for _ = 1, runs do
  local keys, length, equal, has_id, from = unpack_at('>I2I4I2B', args, pos)
  ids = ids + has_id
  repeat
    local ok, reply = pcall(decide, from + 8, base, has_id == 1 and ARGV[ids], from, equal)
    if not ok then
      if type(reply) == 'table' then reply = reply.err end
      reply = pack('>BI2', 255, #reply) .. reply
    end
    out[#out + 1] = reply
    -- Those of a run that were allowed leave the others to be decided after them.
    local allowed = equal
    if equal > 1 and reply:byte() == 1 then
      local units = unpack_at('>i8', reply, 19)
      allowed = units / unpack_at('>i8', args, from + 19)
    end
    equal = equal - allowed
  until equal == 0
  base, pos = base + keys, from + length
end
return table.concat(out)
