return R
end -- of rest(), see prelude.lua
