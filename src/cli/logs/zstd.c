/* SPDX-License-Identifier: Apache-2.0 */
/* zstd, by libzstd: the only file that sees it. */
#include <stdio.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "cli/logs/input.h"

static const char *run_zstd(void *state, struct rn_slice *in, char **out, char *out_end,
                            bool *whole)
{
    ZSTD_inBuffer from = {in->data, in->len, 0};
    ZSTD_outBuffer to = {*out, (size_t)(out_end - *out), 0};
    size_t left;

    if (*whole && in->len == 0)
        return NULL; /* not the beginning of another frame */
    left = ZSTD_decompressStream(state, &to, &from);
    *in = (struct rn_slice){in->data + from.pos, in->len - from.pos};
    *out += to.pos;
    *whole = left == 0;
    if (ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge)
        return "was compressed with a window above 128 MB, which is not read; write zstd -dc "
               "--long=31 FILE | ration ... -";
    return ZSTD_isError(left) ? RN_INPUT_DAMAGED : NULL;
}

static void free_zstd(void *state)
{
    ZSTD_freeDStream(state);
}

bool rn_input_zstd(struct rn_unpack *unpack, char problem[RN_INPUT_PROBLEM])
{
    ZSTD_DStream *z = ZSTD_createDStream();

    if (z == NULL) {
        snprintf(problem, RN_INPUT_PROBLEM, "out of memory");
        return false;
    }
    *unpack = (struct rn_unpack){z, run_zstd, free_zstd};
    return true;
}
