-- A report to a bucket. What was admitted elsewhere is charged whole, so that there may
-- be more debt than the bucket holds: it is paid off before anything is admitted again.
-- Returns the debt and the tick at which it is so.

local function report_bucket(key, now, units, arg)
    local tick_us, paid, unit, full = struct.unpack('<dddd', arg, 33)
    local debt, last, write = load_bucket(key, math.floor(now / tick_us), paid, full)
    debt = math.min(debt + units * unit, 2 ^ 53 - 1)
    if debt > 0 and (units > 0 or write) then
        local reset = (last + math.ceil(debt / paid)) * tick_us - now
        redis.call('SET', key, struct.pack('<ddd', debt, last, full), 'PX', math.ceil(reset / 1000) + 1000)
    end
    return debt, last, 0
end
