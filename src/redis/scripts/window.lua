-- Fixed window: its end, and the units spent in it.
--
-- arg    amount
--        period  us
--        first   1: a window begins with its first charge, else where the clock says
--        begin, middle, last   of two consecutive windows of a calendar; all 0 without one.
--                              The node computes them, as Redis has no time zones; the
--                              server's clock chooses between the two.
--        longest us that a window may last
-- value  end of the window, units spent; a third number if units are owed: a late debit that did
--        not fit. The next window starts with them spent.
--
-- If the clock goes back into the previous window, the later window goes on: cutting it short
-- would start it twice. If it goes back further, the count moves into the present window.

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

-- The end of the window after the one that ends at `finish`; 0: beyond the given calendar.
local function next_end(finish, period, first, begin, middle, last)
    if last ~= 0 and (finish < begin or finish >= last) then
        return 0
    end
    return end_of(finish, period, first, begin, middle, last)
end

-- Returns the end of the window (0: none is open), the units spent, the units owed, and whether
-- the count was moved back.
local function load_window(key, now, period, first, begin, middle, last, longest)
    local value = values[key]
    if not value then
        return 0, 0, 0, false
    end
    local finish, count = struct.unpack('<dd', value)
    local owed = #value % 32 == 24 and struct.unpack('<d', value, 17) or 0
    if finish <= now then
        finish = owed > 0 and next_end(finish, period, first, begin, middle, last) or 0
        if finish <= now then
            return 0, 0, 0, false
        end
        return finish, owed, 0, false
    elseif finish - now > (first == 1 and longest or 2 * longest) then
        return end_of(now, period, first, begin, middle, last), count, owed, true
    end
    return finish, count, owed, false
end

local function save_window(key, finish, count, owed, period, first, begin, middle, last)
    if owed > 0 then
        local till = next_end(finish, period, first, begin, middle, last)
        put(key, struct.pack('<ddd', finish, count, owed), till > 0 and till or finish + period)
    else
        put(key, struct.pack('<dd', finish, count), finish)
    end
end

local function apply(key, now, ask, amount, period, first, begin, middle, last, longest)
    local finish, count, owed, write = load_window(key, now, period, first, begin, middle, last, longest)
    local left = amount > count + owed and amount - count - owed or 0
    local allowed, retry, lost = 1, 0, 0
    if ask.gives_back or ask.credits then
        allowed = (ask.credits or finish == ask.mark) and count > 0 and ask.cost > 0 and 1 or 0
        if allowed == 1 then
            local forgiven = math.min(owed, ask.cost)
            owed, count = owed - forgiven, count - math.min(count, ask.cost - forgiven)
            write = true
        end
    else
        if ask.cost > left and ask.cost > amount then
            allowed, retry = 0, -1
        elseif ask.cost > left then
            local far = owed > amount - ask.cost and next_end(finish, period, first, begin, middle, last) or 0
            allowed, retry = 0, (far > 0 and far or finish) - now
        end
        if ask.charges and ask.cost > 0 and (allowed == 1 or ask.forces) then
            if finish == 0 then
                finish = end_of(now, period, first, begin, middle, last)
            end
            local over = ask.cost > left and ask.cost - left or 0
            local more = ask.debits and math.max(math.min(over, amount - owed), 0) or 0
            count, owed, write = count + ask.cost - over, owed + more, true
            lost = over - more
        end
    end
    if write then
        save_window(key, finish, count, owed, period, first, begin, middle, last)
    end
    if ask.forces then
        allowed, retry = 1, 0
    end
    left = amount > count + owed and amount - count - owed or 0
    local reset = owed > 0 and next_end(finish, period, first, begin, middle, last) or finish
    return allowed, left, retry, count + owed > 0 and math.max(reset, finish) - now or 0, ask.debits and lost or 0, finish
end
