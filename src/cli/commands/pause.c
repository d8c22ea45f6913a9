/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration pause`: pauses a key or a client, lifts the pause, or tells how long it lasts.
 */
#include <string.h>

#include <ration/pause.h>

#include "cli/client/daemon.h"
#include "cli/output/output.h"
#include "rules/report/report.h"

/* The words: a key unless there are attributes, and a length. False after an error message. */
static bool read_words(const struct rn_options *o, const char **key, const char **length)
{
    struct ration_error error;
    size_t at = 0;
    int64_t ns;

    *key = *length = NULL;
    if (o->attribute_count == 0 && at < o->word_count)
        *key = o->words[at++];
    if (at < o->word_count)
        *length = o->words[at++];
    if (o->attribute_count == 0 && *key == NULL)
        return rn_output_error("pause what? write for example ration pause %s",
                               o->command->example);
    if (at < o->word_count)
        return rn_output_error("found %s; a pause has one key or attributes, and one length: write "
                               "a length of several words in quotes",
                               rn_excerpt(rn_slice_of(o->words[at])).text);
    if (*key != NULL && o->rule != NULL)
        return rn_output_error("--rule goes with attributes: a key is paused under all limits that "
                               "come with a call");
    if (*length != NULL && o->lift)
        return rn_output_error("give a length or --lift, not both");
    if (*length != NULL &&
        ration_pause_length(*length, strlen(*length), RATION_NOW, &ns, &error) != 0)
        return rn_output_error("%s", error.text);
    return true;
}

static bool ask(struct rn_daemon *d, const char *key, const char *length)
{
    const struct rn_options *o = d->options;

    rn_buf_put_char(&d->body, '{');
    if (key != NULL) {
        rn_buf_put_literal(&d->body, "\"key\":");
        rn_json_put_string(&d->body, rn_slice_of(key));
    } else {
        rn_daemon_put_attributes(d);
    }
    if (o->rule != NULL) {
        rn_buf_put_literal(&d->body, ",\"rule\":");
        rn_json_put_string(&d->body, rn_slice_of(o->rule));
    }
    if (length != NULL) {
        rn_buf_put_literal(&d->body, ",\"for\":");
        rn_json_put_string(&d->body, rn_slice_of(length));
    }
    rn_buf_put_char(&d->body, '}');
    return rn_daemon_do(d, &(struct rn_daemon_request){.method = length != NULL ? "POST"
                                                                 : o->lift      ? "DELETE"
                                                                                : "GET",
                                                       .target = "/v1/pause"});
}

int rn_command_pause(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    const char *key, *length;
    char text[RN_TIME_TEXT];

    if (!read_words(d->options, &key, &length) || !ask(d, key, length))
        return RN_EXIT_ERROR;
    int64_t rest_ns = rn_cli_json_seconds(d->answer, "rest");

    if (d->options->json)
        rn_daemon_print(d);
    else if (rest_ns <= 0 && length != NULL)
        rn_output_put(&out, RN_PLAIN, "not paused: the length is 0, or the date has passed\n");
    else if (rest_ns <= 0)
        rn_output_put(&out, RN_PLAIN, "not paused\n");
    else if (d->options->lift)
        rn_output_put(&out, RN_PLAIN, "lifted; %s were left\n", rn_output_time(rest_ns, text));
    else
        rn_output_put(&out, RN_PLAIN, "paused for %s\n", rn_output_time(rest_ns, text));
    return rest_ns > 0 || length != NULL ? RN_EXIT_OK : RN_EXIT_REFUSED;
}
