/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/members.h"

#include <ration/ration.h>

#include "wire/json.h"

void rn_members_name(struct rn_members *m, const char *name)
{
    if (m->begun)
        rn_buf_put_char(m->out, ',');
    m->begun = true;
    if (!name)
        return;
    rn_buf_put_char(m->out, '"'); /* not rn_buf_putf: six times the instructions */
    rn_buf_put_slice(m->out, rn_slice_of(name));
    rn_buf_put_literal(m->out, "\":");
}

void rn_members_open(struct rn_members *m, const char *name, char bracket)
{
    rn_members_name(m, name);
    rn_buf_put_char(m->out, bracket);
    m->begun = false;
}

void rn_members_close(struct rn_members *m, char bracket)
{
    rn_buf_put_char(m->out, bracket);
    m->begun = true;
}

void rn_members_text(struct rn_members *m, const char *name, struct rn_slice text)
{
    rn_members_name(m, name);
    rn_json_put_string(m->out, text);
}

void rn_members_text_named(struct rn_members *m, struct rn_slice name, struct rn_slice text)
{
    rn_members_text(m, NULL, name);
    rn_buf_put_char(m->out, ':');
    rn_json_put_string(m->out, text);
}

void rn_members_u64(struct rn_members *m, const char *name, uint64_t value)
{
    rn_members_name(m, name);
    rn_buf_put_u64(m->out, value);
}

void rn_members_bool(struct rn_members *m, const char *name, bool value)
{
    rn_members_name(m, name);
    if (value)
        rn_buf_put_literal(m->out, "true");
    else
        rn_buf_put_literal(m->out, "false");
}

void rn_members_null(struct rn_members *m, const char *name)
{
    rn_members_name(m, name);
    rn_buf_put_literal(m->out, "null");
}

void rn_members_seconds(struct rn_members *m, const char *name, int64_t ns)
{
    if (ns == RATION_NEVER) {
        rn_members_null(m, name);
        return;
    }
    rn_members_name(m, name);
    rn_json_put_seconds(m->out, ns);
}
