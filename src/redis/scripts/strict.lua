-- For limits without leases: the key is all there is of their state.

local forget = drop
