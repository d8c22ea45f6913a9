-- Sliding window counter with leases: counter.lua says what is charged, lease_charged.lua
-- how a lease is. It ends with the current window; until then the one before only fades.

local HEAD = 24 -- bytes of a value before its leases

local function ends(number, _, period)
    return (number + 1) * period
end
