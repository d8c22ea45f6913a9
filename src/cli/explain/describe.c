/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/explain/describe.h"

void rn_cli_explain_finding(const struct rn_output *out, const struct rn_finding *f)
{
    struct rn_buf words = {0};

    rn_reason_write_finding(&words, f);
    rn_output_put(out, f->holds ? RN_GOOD : RN_BAD, f->holds ? "+ " : "- ");
    rn_output_put(out, RN_PLAIN, "%.*s", (int)words.len, words.data);
    rn_buf_done(&words);
}
