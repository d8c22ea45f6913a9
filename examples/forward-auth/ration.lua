-- Asks rationd about a request and answers in its place if it is refused.

local RATIOND = "http://127.0.0.1:8080/v1/auth"
local TIMEOUT_MS = 1000

-- Headers that belong to one connection, and those that only we may say.
local OURS = {
    ["connection"] = true, ["content-length"] = true, ["expect"] = true, ["keep-alive"] = true,
    ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true, ["transfer-encoding"] = true,
    ["upgrade"] = true,
    ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-for"] = true,
    ["x-forwarded-host"] = true, ["x-forwarded-proto"] = true,
}

local function describe(txn)
    local headers = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        if not OURS[name] then
            headers[name] = {}
            for i, value in pairs(values) do
                headers[name][i + 1] = value -- HAProxy counts from 0
            end
        end
    end
    headers["x-forwarded-method"] = { txn.f:method() }
    headers["x-forwarded-uri"] = { txn.f:pathq() }
    headers["x-forwarded-for"] = { txn.f:src() }
    headers["x-forwarded-proto"] = { txn.f:ssl_fc() == 1 and "https" or "http" }
    return headers
end

local function refuse(txn, answer)
    local reply = txn:reply({ status = answer.status, body = answer.body })
    for name, values in pairs(answer.headers) do
        if not OURS[name] then
            for _, value in pairs(values) do
                reply:add_header(name, value)
            end
        end
    end
    txn:done(reply)
end

-- Without rationd the site stays open: only a refusal is one.
core.register_action("ration", { "http-req" }, function(txn)
    local answer = core.httpclient():get({
        url = RATIOND, headers = describe(txn), timeout = TIMEOUT_MS })
    if answer and answer.status >= 400 and answer.status < 500 then
        refuse(txn, answer)
    end
end)
