-- A report to a fixed window: the one that is open when the report comes, even if the
-- units were admitted in the one before. Returns its end (0: none is open) and the
-- count, which may be above the amount.

local function report_window(key, now, units, arg)
    local _, period, first, begin, middle, last, longest = read_limit(arg)
    local finish, count, owed, write = load_window(key, now, period, first, begin, middle, last, longest)
    if units > 0 then
        finish = finish > 0 and finish or end_of(now, period, first, begin, middle, last)
        count, write = count + units, true
    end
    if write then
        save_window(key, finish, count, owed, period, first, begin, middle, last)
    end
    return finish, count + owed, 0
end
