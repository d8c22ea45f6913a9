-- Fixed window: when it ends and how much of it is spent.
--
-- arg    amount
--        period  us
--        first   1: a window begins with its first charge, else where the clock says
--        begin, middle, last   of two windows of a calendar, one after the other; all
--                              0 without a calendar. The node computes them, for the
--                              store knows no time zones, and the store's clock chooses.
--        longest us that a window may last
-- value  end of the window, units spent
--
-- A window ends when it was going to. If the clock has gone back into the window
-- before, the later one goes on: to cut it short would be to begin it twice. From
-- further ahead its count is brought into the present one.

local function read_limit(arg)
    return struct.unpack('<ddddddd', arg, 33)
end

local function end_of(now, period, first, begin, middle, last)
    if first == 1 then
        return now + period
    elseif last == 0 then
        return now - now % period + period
    elseif now < begin or now >= last then
        error('the time of the store is not in the calendar given')
    end
    return now < middle and middle or last
end

-- Its end, 0 if none is open, what is spent of it, and whether it was brought back.
local function load_window(key, now, period, first, begin, middle, last, longest)
    local value = values[key]
    if not value then
        return 0, 0, false
    end
    local finish, count = struct.unpack('<dd', value)
    if finish <= now then
        return 0, 0, false
    elseif finish - now > (first == 1 and longest or 2 * longest) then
        return end_of(now, period, first, begin, middle, last), count, true
    end
    return finish, count, false
end

local function save_window(key, finish, count)
    put(key, struct.pack('<dd', finish, count), finish)
end

local function apply(key, now, ask, amount, period, first, begin, middle, last, longest)
    local finish, count, write = load_window(key, now, period, first, begin, middle, last, longest)
    local left = amount > count and amount - count or 0
    local allowed, retry = 1, 0
    if ask.gives_back then
        allowed = finish == ask.mark and count > 0 and ask.cost > 0 and 1 or 0
        if allowed == 1 then
            count, write = count - math.min(count, ask.cost), true
        end
    else
        if ask.cost > left then
            allowed, retry = 0, ask.cost > amount and -1 or finish - now
        end
        if ask.charges and ask.cost > 0 and (allowed == 1 or ask.forces) then
            if finish == 0 then
                finish = end_of(now, period, first, begin, middle, last)
            end
            count, write = count + (ask.cost < left and ask.cost or left), true
        end
    end
    if write then
        save_window(key, finish, count)
    end
    if ask.forces then
        allowed, retry = 1, 0
    end
    return allowed, amount > count and amount - count or 0, retry, count > 0 and finish - now or 0, 0, finish
end
