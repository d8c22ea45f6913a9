/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration override`: limits of their own for single keys of a rule.
 */
#include "cli/pages.h"
#include "cli/received.h"

/* --- list -------------------------------------------------------------------------- */

static void put_entry(struct rn_columns *columns, const struct rn_value *v)
{
    char text[RN_TIME_TEXT];

    rn_columns_text(columns, rn_value_text(v, "rule"));
    rn_received_pairs(columns, rn_value_get(v, "attributes"));
    rn_columns_text(columns, rn_value_text(v, "limit"));
    rn_columns_put(columns, "%s", rn_output_time(rn_value_seconds(v, "expires_after"), text));
    rn_columns_text(columns, rn_value_text(v, "note"));
}

static int list(struct rn_daemon *d)
{
    static const char *const titles[] = {"rule", "whose", "limit", "ends in", "note"};

    return rn_pages_print(d, &(struct rn_pages){.path = "/v1/overrides",
                                                .name = "overrides",
                                                .titles = titles,
                                                .title_count = 5,
                                                .put = put_entry});
}

/* --- set, delete ------------------------------------------------------------------- */

static void begin_body(struct rn_daemon *d)
{
    rn_buf_put_literal(&d->body, "{\"rule\":");
    rn_json_put_string(&d->body, rn_slice_of(d->options->words[0]));
    rn_buf_put_char(&d->body, ',');
    rn_daemon_put_attributes(d);
}

static int set(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;
    struct rn_output out = rn_output_to(stdout, o);
    char text[RN_TIME_TEXT];

    begin_body(d);
    rn_buf_put_literal(&d->body, ",\"limit\":");
    rn_json_put_string(&d->body, rn_slice_of(o->limit));
    if (o->for_ns != 0) {
        rn_buf_put_literal(&d->body, ",\"for\":");
        rn_json_put_seconds(&d->body, o->for_ns);
    }
    if (o->note != NULL) {
        rn_buf_put_literal(&d->body, ",\"note\":");
        rn_json_put_string(&d->body, rn_slice_of(o->note));
    }
    rn_buf_put_char(&d->body, '}');
    if (!rn_daemon_do(d, &(struct rn_question){.method = "PUT", .target = "/v1/overrides"}))
        return RN_EXIT_ERROR;
    if (o->json) {
        rn_daemon_print(d);
        return RN_EXIT_OK;
    }
    rn_received_attributes(&out, rn_value_get(d->answer, "attributes"));
    rn_output_put(&out, RN_PLAIN, " may have ");
    rn_output_escaped(&out, rn_value_text(d->answer, "limit"));
    rn_output_put(&out, RN_PLAIN, " of %s", o->words[0]);
    if (o->for_ns != 0)
        rn_output_put(&out, RN_PLAIN, " for %s", rn_output_time(o->for_ns, text));
    rn_output_put(&out, RN_PLAIN, "\n");
    return RN_EXIT_OK;
}

static int delete_one(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    bool deleted;

    begin_body(d);
    rn_buf_put_char(&d->body, '}');
    if (!rn_daemon_do(d, &(struct rn_question){.method = "DELETE", .target = "/v1/overrides"}))
        return RN_EXIT_ERROR;
    deleted = rn_value_is_true(d->answer, "deleted");
    if (d->options->json)
        rn_daemon_print(d);
    else
        rn_output_put(&out, RN_PLAIN, deleted ? "deleted\n" : "there was no such override\n");
    return deleted ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_override_list(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, list);
}

int rn_command_override_set(const struct rn_options *options)
{
    if (options->limit != NULL)
        return rn_daemon_run(options, RN_PORT_ADMIN, set);
    rn_complain("which limit? write for example ration override set %s", options->command->example);
    return RN_EXIT_ERROR;
}

int rn_command_override_delete(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, delete_one);
}
