-- A report to a bucket. The units were admitted already and are charged in full, so the debt may
-- exceed the bucket: it is paid off before anything is admitted again. Returns the debt and its
-- tick.

local function report_bucket(key, now, units, arg)
    local tick_us, paid, unit, full = read_limit(arg)
    local debt, last, write = load_bucket(key, math.floor(now / tick_us), paid, full)
    debt = math.min(debt + units * unit, 2 ^ 53 - 1)
    if debt > 0 and (units > 0 or write) then
        put(key, struct.pack('<ddd', debt, last, full), when(debt, last, paid, tick_us))
    end
    return debt, last, 0
end
