-- modules declares the tables of functions that make_bans, make_ids, make_holders and make_whole
-- return (script.go). Each is nil until it is needed.

local bans, ids, holders, whole
