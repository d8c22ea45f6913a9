/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration publish`: the limits as users of an API should read them, from rules files or a daemon.
 */
#include "wire/publish/publish.h"

#include <string.h>

#include "cli/client/daemon.h"
#include "cli/offline.h"
#include "cli/output/output.h"

static const char *const formats[RN_PUBLISH_FORMATS] = {
    [RN_PUBLISH_HTML] = "html", [RN_PUBLISH_MARKDOWN] = "markdown", [RN_PUBLISH_JSON] = "json"};

/* RN_PUBLISH_FORMATS after an error message. */
static enum rn_publish_format format_of(const struct rn_options *o)
{
    const char *name = o->format != NULL ? o->format : o->json ? "json" : "markdown";
    size_t i = rn_slice_find(rn_slice_of(name), formats, RN_PUBLISH_FORMATS);

    if (i == RN_PUBLISH_FORMATS)
        rn_output_error("--format: there is no %s; write html, markdown or json",
                        rn_excerpt(rn_slice_of(name)).text);
    return (enum rn_publish_format)i;
}

static int publish_daemon(struct rn_daemon *d)
{
    enum rn_publish_format format = format_of(d->options);
    char type[32] = "";

    rn_slice_copy(
        type, sizeof type,
        (struct rn_slice){rn_publish_types[format], strcspn(rn_publish_types[format], ";")});
    if (!rn_daemon_do(d, &(struct rn_daemon_request){
                             .method = "GET", .target = "/v1/limits", .accept = type}))
        return RN_EXIT_ERROR;
    fwrite(d->text.data, 1, d->text.len, stdout);
    return RN_EXIT_OK;
}

int rn_command_publish(const struct rn_options *options)
{
    enum rn_publish_format format = format_of(options);
    struct rn_output complaints = rn_output_to(stderr, options);
    struct rn_offline offline;
    struct rn_buf text = {0};
    int status = RN_EXIT_ERROR;

    if (format == RN_PUBLISH_FORMATS)
        return RN_EXIT_ERROR;
    if (options->json && format != RN_PUBLISH_JSON) {
        rn_output_error("--json and --format %s: give one of them", options->format);
        return RN_EXIT_ERROR;
    }
    if (rn_daemon_is_meant(options))
        return rn_daemon_run(options, RN_PORT_ADMIN, publish_daemon);
    if (rn_offline_load(&offline, options)) {
        rn_publish_put(&text, offline.ruleset, format);
        if (!rn_publish_any(offline.ruleset))
            rn_output_error("no limit to publish: rules in shadow mode, in Envoy's format and with "
                            "publish: false are left out");
        if (rn_output_save("-", &text))
            status = RN_EXIT_OK;
    } else {
        rn_output_report(&complaints, &offline.report);
    }
    rn_buf_done(&text);
    rn_offline_done(&offline);
    return status;
}
