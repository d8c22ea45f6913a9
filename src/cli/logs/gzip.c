/* SPDX-License-Identifier: Apache-2.0 */
/* gzip, by zlib: the only file that sees it. */
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "cli/logs/input.h"

/* A file may be several members, one behind the other. */
static const char *run_gzip(void *state, struct rn_slice *in, char **out, char *out_end,
                            bool *whole)
{
    z_stream *z = state;
    int code;

    if (*whole && in->len != 0 && inflateReset(z) != Z_OK)
        return RN_INPUT_DAMAGED;
    z->next_in = (Bytef *)(uintptr_t)in->data;
    z->avail_in = (uInt)in->len;
    z->next_out = (Bytef *)*out;
    z->avail_out = (uInt)(out_end - *out);
    code = inflate(z, Z_NO_FLUSH);
    *in = (struct rn_slice){(const char *)z->next_in, z->avail_in};
    *out = (char *)z->next_out;
    *whole = code == Z_STREAM_END;
    return code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR ? NULL : RN_INPUT_DAMAGED;
}

static void free_gzip(void *state)
{
    inflateEnd(state);
    free(state);
}

bool rn_input_gzip(struct rn_unpack *unpack, char problem[RN_INPUT_PROBLEM])
{
    z_stream *z = calloc(1, sizeof *z);

    if (z == NULL || inflateInit2(z, 16 + MAX_WBITS) != Z_OK) {
        free(z);
        snprintf(problem, RN_INPUT_PROBLEM, "out of memory");
        return false;
    }
    *unpack = (struct rn_unpack){z, run_gzip, free_gzip};
    return true;
}
