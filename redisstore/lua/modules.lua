-- modules: tables of functions, nil until they are needed.

local bans, ids, holders, whole
