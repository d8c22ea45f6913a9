-- Reports to rationd the status that a request ended with, for limits with charge_on. The action
-- `ration` of examples/forward-auth/ration.lua has kept what to charge in a variable.

-- The section `listen ration` of haproxy.cfg, which keeps the deadline.
local REPORT = "http://127.0.0.1:8079/v1/charge"
local LAST_RESORT_MS = 2000

core.register_action("ration_report", { "http-res" }, function(txn)
    local charge = txn:get_var("txn.ration_charge")
    if not charge then
        return -- no limit of this request is charged by outcome
    end
    local headers = { ["x-ration-charge"] = { charge }, ["x-ration-status"] = { tostring(txn.f:status()) } }
    -- In a task of its own: the client need not wait for it. A report that fails charges nothing.
    core.register_task(function()
        core.httpclient():get({ url = REPORT, headers = headers, timeout = LAST_RESORT_MS })
    end)
end)
