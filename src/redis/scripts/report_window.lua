-- A report to a fixed window: the one that is open when the report comes, even if the
-- units were admitted in the one before. Returns its end (0: none is open) and the
-- count, which may be above the amount.

local function report_window(key, now, units, arg)
    local limit = read_window(arg)
    local finish, count, write = load_window(key, now, limit)
    if units > 0 then
        finish, count, write = finish > 0 and finish or end_of(now, limit), count + units, true
    end
    if write then
        save_window(key, now, finish, count)
    end
    return finish, count, 0
end
