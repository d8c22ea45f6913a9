-- Asks rationd about a request and answers in its place if it is refused.

-- Requests about which rationd does not answer in time: "allow" them or "refuse" them.
local WITHOUT_RATIOND = "allow"

-- The request headers that your rules use. rationd is sent these and no others.
local HEADERS = { "accept", "x-api-key" }

-- The section `listen ration` of haproxy.cfg, which keeps the deadline.
local ASK = "http://127.0.0.1:8079/v1/auth"
local LAST_RESORT_MS = 2000

-- What rationd is told about one request, in bytes. HAProxy 2.6 breaks when its HTTP client is
-- given more than its buffer holds, and crashes when it is given about 100 headers.
local LONGEST = 8192
assert(#HEADERS <= 16, "ration.lua: HEADERS must have at most 16 names")
assert(WITHOUT_RATIOND == "allow" or WITHOUT_RATIOND == "refuse",
       'ration.lua: WITHOUT_RATIOND must be "allow" or "refuse"')

-- Headers of rationd's answer that belong to one connection, or to us.
local NOT_FOR_CLIENTS = {
    ["connection"] = true, ["content-length"] = true, ["keep-alive"] = true,
    ["transfer-encoding"] = true, ["x-ration-answered"] = true,
}

-- Returns the headers of the question and their length.
local function describe(txn)
    local headers, length = {}, 0
    local function add(name, value)
        if value then
            headers[name] = { value }
            length = length + #name + #value
        end
    end
    local sent = txn.http:req_get_headers()
    for _, name in ipairs(HEADERS) do
        local lines = sent[name:lower()]
        if lines then
            -- One line, however many there are. HAProxy counts from 0.
            add(name, table.concat(lines, ", ", 0, #lines))
        end
    end
    add("x-forwarded-method", txn.f:method())
    add("x-forwarded-uri", txn.f:pathq())
    add("x-forwarded-host", txn.f:req_hdr("host"))
    add("x-forwarded-proto", txn.f:ssl_fc() == 1 and "https" or "http")
    add("x-forwarded-for", txn.f:src())
    return headers, length
end

local function refuse(txn, status, error)
    txn:done(txn:reply({ status = status, body = '{"error":"' .. error .. '"}\n',
                         headers = { ["content-type"] = { "application/json" } } }))
end

local function pass_on(txn, answer)
    local reply = txn:reply({ status = answer.status, body = answer.body })
    for name, values in pairs(answer.headers) do
        if not NOT_FOR_CLIENTS[name] then
            for _, value in pairs(values) do
                reply:add_header(name, value)
            end
        end
    end
    txn:done(reply)
end

core.register_action("ration", { "http-req" }, function(txn)
    local headers, length = describe(txn)
    if length > LONGEST then
        return refuse(txn, 431, "too_long")
    end
    local answer = core.httpclient():get({ url = ASK, headers = headers, timeout = LAST_RESORT_MS })
    if answer and answer.headers and answer.headers["x-ration-answered"] then
        if answer.status ~= 200 then
            return pass_on(txn, answer) -- whatever it says, also 5xx
        end
        local charge = answer.headers["x-ration-charge"]
        if charge then -- for examples/by-outcome
            txn:set_var("txn.ration_charge", charge[0])
        end
    elseif WITHOUT_RATIOND == "refuse" then
        return refuse(txn, 503, "unavailable")
    end
    txn:set_var("txn.ration", "passed") -- haproxy.cfg refuses requests without it
end)
