/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration ban`: requests that have certain attributes are refused, whatever the
 * rules say.
 */
#include "cli/pages.h"
#include "cli/received.h"

static void put_entry(struct rn_columns *columns, const struct rn_value *v)
{
    char text[RN_TIME_TEXT];

    rn_received_pairs(columns, rn_value_get(v, "attributes"));
    rn_columns_put(columns, "%s", rn_output_time(rn_value_seconds(v, "expires_after"), text));
    rn_columns_text(columns, rn_value_text(v, "reason"));
}

static int list(struct rn_daemon *d)
{
    static const char *const titles[] = {"who", "ends in", "reason"};

    return rn_pages_print(d, &(struct rn_pages){.path = "/v1/bans",
                                                .name = "bans",
                                                .titles = titles,
                                                .title_count = 3,
                                                .put = put_entry});
}

static int add(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;
    struct rn_output out = rn_output_to(stdout, o);
    char text[RN_TIME_TEXT];
    struct rn_slice note;

    rn_buf_put_char(&d->body, '{');
    rn_daemon_put_attributes(d);
    if (o->for_ns != 0) {
        rn_buf_put_literal(&d->body, ",\"for\":");
        rn_json_put_seconds(&d->body, o->for_ns);
    }
    if (o->reason != NULL) {
        rn_buf_put_literal(&d->body, ",\"reason\":");
        rn_json_put_string(&d->body, rn_slice_of(o->reason));
    }
    rn_buf_put_char(&d->body, '}');
    if (!rn_daemon_do(d, &(struct rn_question){.method = "PUT", .target = "/v1/bans"}))
        return RN_EXIT_ERROR;
    if (o->json) {
        rn_daemon_print(d);
        return RN_EXIT_OK;
    }
    rn_received_attributes(&out, rn_value_get(d->answer, "attributes"));
    if (o->for_ns != 0)
        rn_output_put(&out, RN_PLAIN, " is banned for %s\n", rn_output_time(o->for_ns, text));
    else
        rn_output_put(&out, RN_PLAIN, " is banned until the ban is deleted\n");
    note = rn_value_text(d->answer, "note");
    if (note.len != 0) {
        struct rn_output err = rn_output_to(stderr, o);

        rn_output_put(&err, RN_PLAIN, "ration: note: ");
        rn_output_lines(&err, note);
        rn_output_put(&err, RN_PLAIN, "\n");
    }
    return RN_EXIT_OK;
}

static int delete_one(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    bool deleted;

    rn_buf_put_char(&d->body, '{');
    rn_daemon_put_attributes(d);
    rn_buf_put_char(&d->body, '}');
    if (!rn_daemon_do(d, &(struct rn_question){.method = "DELETE", .target = "/v1/bans"}))
        return RN_EXIT_ERROR;
    deleted = rn_value_is_true(d->answer, "deleted");
    if (d->options->json)
        rn_daemon_print(d);
    else
        rn_output_put(&out, RN_PLAIN, deleted ? "deleted\n" : "there was no such ban\n");
    return deleted ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

static int run_on(const struct rn_options *options, int (*action)(struct rn_daemon *))
{
    if (options->attribute_count > 0)
        return rn_daemon_run(options, RN_PORT_ADMIN, action);
    rn_complain("whom? write for example ration %s %s", options->command->name,
                options->command->example);
    return RN_EXIT_ERROR;
}

int rn_command_ban_list(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, list);
}

int rn_command_ban_add(const struct rn_options *options)
{
    return run_on(options, add);
}

int rn_command_ban_delete(const struct rn_options *options)
{
    return run_on(options, delete_one);
}
