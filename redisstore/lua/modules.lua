-- modules: tables of functions, nil in scripts that do not have them. In the scripts of takes, this
-- file and those up to decide.lua are the body of make_decide (script.go): a plain take does not
-- need them.

local bans, ids, holders
