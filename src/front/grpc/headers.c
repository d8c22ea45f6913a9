/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers of a call: its method, and how long the caller will wait.
 */
#include "base/number.h"
#include "front/grpc/grpc_internal.h"

#define HEAD_MAX (16 * 1024)
#define TIMEOUT_DIGITS 8
#define HOUR_NS INT64_C(3600000000000)

/* application/grpc, alone or with +proto, and parameters. */
static bool is_grpc(struct rn_slice type)
{
    static const struct rn_slice plain = RN_SLICE_INIT("application/grpc");
    static const struct rn_slice proto = RN_SLICE_INIT("application/grpc+proto");
    size_t len = rn_slice_starts_with(type, proto)   ? proto.len
                 : rn_slice_starts_with(type, plain) ? plain.len
                                                     : 0;

    return len != 0 && (type.len == len || type.data[len] == ';' || type.data[len] == ' ');
}

/* 1 to 8 digits and a unit. False: it is not. */
static bool read_timeout(struct rn_slice text, int64_t *ns)
{
    static const struct {
        char letter;
        int64_t ns;
    } units[] = {{'n', 1},          {'u', 1000},        {'m', 1000000},
                 {'S', 1000000000}, {'M', 60000000000}, {'H', HOUR_NS}};
    int64_t n = 0;

    if (text.len < 2 || text.len > TIMEOUT_DIGITS + 1)
        return false;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        n = n * 10 + (text.data[i] - '0');
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i].letter != text.data[text.len - 1])
            continue;
        *ns = n < INT64_MAX / 4 / units[i].ns ? n * units[i].ns : INT64_MAX / 4;
        return true;
    }
    return false;
}

bool rn_grpc_read_header(struct rn_grpc_call *call, struct rn_slice name, struct rn_slice value)
{
    call->head_bytes += name.len + value.len + 32; /* as HTTP/2 counts them */
    if (call->head_bytes > HEAD_MAX)
        return false;
    if (rn_slice_is(name, ":path")) {
        call->method = rn_grpc_method(value);
    } else if (rn_slice_is(name, ":method")) {
        call->post = rn_slice_is(value, "POST");
    } else if (rn_slice_is(name, "content-type")) {
        call->typed = is_grpc(value);
    } else if (rn_slice_is(name, "grpc-timeout")) {
        call->bad_timeout = !read_timeout(value, &call->timeout_ns);
        if (call->timeout_ns == 0)
            call->timeout_ns = 1;
    }
    return true;
}
