-- A report to a sliding counter: to its current window, whose count may then be above
-- the amount. Returns the number of that window, the previous and the current count.

local function report_counter(key, now, units, arg)
    local amount, period = read_limit(arg)
    local number, prev, cur, owed, write = roll(key, now, amount, period)
    if units > 0 or write then
        cur = cur + units
        save_counter(key, period, number, prev, cur, owed)
    end
    return number, prev, cur + owed
end
