-- Asks stint about requests; see haproxy.cfg.
--
--   http-request  lua.stint_ask open    asks stint, and answers denied requests; without stint, requests pass
--   http-request  lua.stint_ask closed  the same, but without stint, requests get 503
--   http-response lua.stint_headers     adds stint's header fields about limits to the response

local question = "http://stint/auth"
local address = "abns@stint" -- the listener in haproxy.cfg
local timeout_ms = 500 -- longer than the listener's own timeouts, so that the listener's timeouts apply first

-- asserted lists the header fields that are sent to stint. haproxy.cfg sets or removes them first. Add, in lower case,
-- those that stint.yaml names under claims or client_ip, and those that your own policies match. Other fields are not
-- sent to stint: HAProxy's HTTP client has room for about a hundred fields and crashes on more, and a client may send
-- that many.
local asserted = { "x-forwarded-for", "x-user-id", "x-http-method", "x-http-method-override", "x-method-override" }

-- kept lists fields of stint's response that are not sent to the client. HAProxy writes the length itself.
local kept = {
	["connection"] = true,
	["content-length"] = true,
	["keep-alive"] = true,
	["transfer-encoding"] = true,
	["x-ratelimit-status"] = true,
}

local function about_limits(name)
	return name == "ratelimit" or name == "ratelimit-policy" or name:find("^x%-ratelimit%-") ~= nil
end

-- fields_of returns header fields that describe the request as the application gets it: haproxy.cfg has turned the
-- target into a path, and checked the host.
local function fields_of(txn)
	local fields = {
		["x-forwarded-method"] = { txn.f:method() },
		["x-forwarded-uri"] = { txn.f:url() },
		["x-forwarded-host"] = { txn.f:req_fhdr("host") },
	}
	local sent = txn.http:req_get_headers()
	for _, name in ipairs(asserted) do
		if sent[name] then
			fields[name] = {}
			for line = 0, #sent[name] do
				table.insert(fields[name], sent[name][line])
			end
		end
	end
	return fields
end

-- is_down reports whether an answer comes from the listener itself, because stint did not answer.
local function is_down(answer)
	return not answer.status or answer.status < 200 or (answer.status >= 500 and not answer.headers["x-ratelimit-status"])
end

local function refuse(txn, answer)
	local reply = txn:reply({ status = answer.status, reason = answer.reason })
	for name, values in pairs(answer.headers) do
		for _, value in pairs(values) do
			if not kept[name] then
				reply:add_header(name, value)
			end
		end
	end
	if txn.f:method() ~= "HEAD" then
		reply:set_body(answer.body)
	end
	txn:done(reply)
end

local function ask(txn, without)
	local answer = core.httpclient():get({ url = question, dst = address, headers = fields_of(txn), timeout = timeout_ms })
	if is_down(answer) then
		if without ~= "open" then
			txn:done(txn:reply({ status = 503, headers = { ["retry-after"] = { "1" } } }))
		end
	elseif answer.status < 300 then
		txn:set_priv(answer.headers)
	else
		refuse(txn, answer)
	end
end

local function set_headers(txn)
	-- The application's own rate limit fields would conflict with stint's fields.
	for name in pairs(txn.http:res_get_headers()) do
		if about_limits(name) then
			txn.http:res_del_header(name)
		end
	end
	for name, values in pairs(txn:get_priv() or {}) do
		for _, value in pairs(values) do
			if about_limits(name) then
				txn.http:res_add_header(name, value)
			end
		end
	end
end

core.register_action("stint_ask", { "http-req" }, ask, 1)
core.register_action("stint_headers", { "http-res" }, set_headers)
