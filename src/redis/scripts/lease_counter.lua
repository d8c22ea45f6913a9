-- Sliding window counter with leases: counter.lua charges, lease_charged.lua leases. A lease ends
-- with the current window; until then the previous window only fades.

local HEAD = 24 -- bytes of a value before its leases

local function ends(number, _, period)
    return (number + 1) * period
end
