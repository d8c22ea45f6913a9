-- Sub-windows with leases: log.lua says what is charged, lease_charged.lua how a lease
-- is. It ends with the current sub-window. Of a log on the finest clock there would be
-- nothing left to lease: see lease_log.lua.

local function ends(number, _, grain)
    return (number + 1) * grain
end
