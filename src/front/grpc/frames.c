/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers as frames: HEADERS, DATA, and HEADERS again with the status; or, if
 * there is no message, one HEADERS with all of it.
 *
 * nghttp2 asks for the bytes of DATA when it packs them. Names and values that
 * it need not copy are constants.
 */
#include <stdio.h>

#include "front/grpc/grpc_internal.h"

#define STATUS_TEXT 256

#define STATIC_FLAGS (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)
/* Only read, but nghttp2's type does not say so. */
#define BYTES(text) ((uint8_t *)(uintptr_t)(text))
#define HEADER(name, value)                                                                        \
    {                                                                                              \
        BYTES(name), BYTES(value), sizeof(name) - 1, sizeof(value) - 1, STATIC_FLAGS               \
    }

static ssize_t read_message(nghttp2_session *session, int32_t id, uint8_t *to, size_t size,
                            uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct rn_grpc_call *call = source->ptr;
    size_t left = call->out.len - call->sent, len = left < size ? left : size;
    static const nghttp2_nv ok = HEADER("grpc-status", "0");

    (void)arg;
    if (call->out.failed)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
    if (len == 0 && call->watching)
        return NGHTTP2_ERR_DEFERRED;
    if (len != 0)
        memcpy(to, call->out.data + call->sent, len);
    call->sent += len;
    if (call->sent == call->out.len && !call->watching) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, id, &ok, 1);
    }
    return (ssize_t)len;
}

size_t rn_grpc_message_begin(struct rn_grpc_call *call)
{
    size_t at = call->out.len;

    rn_buf_put(&call->out, "\0\0\0\0", RN_GRPC_PREFIX);
    return at;
}

void rn_grpc_message_end(struct rn_grpc_call *call, size_t at)
{
    size_t len = call->out.len - at - RN_GRPC_PREFIX;

    if (call->out.failed)
        return;
    for (unsigned i = 0; i < 4; i++)
        call->out.data[at + 1 + i] = (char)(len >> (24 - 8 * i));
}

static void finish(struct rn_grpc_call *call)
{
    call->answered = true;
    call->on->answered++;
}

void rn_grpc_answer(struct rn_grpc_call *call)
{
    static const nghttp2_nv headers[] = {HEADER(":status", "200"),
                                         HEADER("content-type", "application/grpc")};
    nghttp2_data_provider source = {.source = {.ptr = call}, .read_callback = read_message};

    finish(call);
    nghttp2_submit_response(call->on->session, call->id, headers, 2, &source);
}

void rn_grpc_answer_more(struct rn_grpc_call *call)
{
    nghttp2_session_resume_data(call->on->session, call->id);
}

/* The rest of a request that is answered already is read and dropped: it is usually on its way,
 * and there is a deadline for one that never ends. */
static void submit_alone(struct rn_grpc_call *call, const nghttp2_nv *headers, size_t count)
{
    finish(call);
    nghttp2_submit_response(call->on->session, call->id, headers, count, NULL);
}

/* Percent-encoded, as gRPC wants it; cut to fit. */
static size_t escape(char *to, const char *text)
{
    size_t len = 0;

    for (; *text && len + 3 < STATUS_TEXT; text++) {
        unsigned char c = (unsigned char)*text;

        if (c >= ' ' && c <= '~' && c != '%')
            to[len++] = (char)c;
        else
            len += (size_t)snprintf(to + len, 4, "%%%02X", c);
    }
    return len;
}

void rn_grpc_fail(struct rn_grpc_call *call, enum rn_grpc_status status, const char *text)
{
    static const char number[][3] = {"0", "1", "2",  "3",  "4",  "5",  "6",  "7",
                                     "8", "9", "10", "11", "12", "13", "14", "15"};
    char message[STATUS_TEXT];
    nghttp2_nv headers[] = {HEADER(":status", "200"), HEADER("content-type", "application/grpc"),
                            HEADER("grpc-status", ""), HEADER("grpc-message", "")};

    headers[2].value = BYTES(number[status]);
    headers[2].valuelen = strlen(number[status]);
    headers[3].value = BYTES(message);
    headers[3].valuelen = escape(message, text);
    headers[3].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
    rn_front_count(&call->on->loop->counts.bad[RN_FRONT_GRPC], 1);
    submit_alone(call, headers, sizeof headers / sizeof *headers);
}

void rn_grpc_refuse(struct rn_grpc_call *call, const char *http_status)
{
    nghttp2_nv header = HEADER(":status", "");

    header.value = BYTES(http_status);
    header.valuelen = strlen(http_status);
    rn_front_count(&call->on->loop->counts.bad[RN_FRONT_GRPC], 1);
    submit_alone(call, &header, 1);
}
