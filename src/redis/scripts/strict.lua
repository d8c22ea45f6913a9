-- Of limits that are decided here and nowhere else: all there is of one is its key.

local forget = drop
