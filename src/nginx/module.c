/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that nginx reads when it loads the module: directives, how locations inherit them,
 * and hooks.
 */
#include "nginx/module.h"
#include "limiter/usage/usage.h"
#include "store/table.h"

#define STATE_PREFIX "/dev/shm/ration-nginx"
#define STATE_NAME_MAX 200 /* of the 255 bytes that a file's name may have */

/* --- http {} -------------------------------------------------------------------------------- */

static void *new_main(ngx_conf_t *cf)
{
    struct rn_ngx_main *main = ngx_pcalloc(cf->pool, sizeof *main);

    if (main)
        main->waiting = NGX_CONF_UNSET;
    if (!main || ngx_array_init(&main->rule_files, cf->pool, 4, sizeof(char *)) != NGX_OK ||
        ngx_array_init(&main->servers, cf->pool, 2, sizeof(struct rn_ngx_server *)) != NGX_OK)
        return NULL;
    return main;
}

/* Names the state file, one for each configuration: /etc/nginx/ has
 * /dev/shm/ration-nginx-etc-nginx. A very long path is cut to its end, with a hash of the
 * whole. */
static char *init_main(ngx_conf_t *cf, void *conf)
{
    struct rn_ngx_main *main = conf;
    ngx_str_t prefix = cf->cycle->conf_prefix;
    size_t room = sizeof STATE_PREFIX + STATE_NAME_MAX + 16;
    u_char *name, *end;

    if (main->state.len != 0)
        return NGX_CONF_OK;
    name = ngx_pnalloc(cf->pool, room);
    if (!name)
        return NGX_CONF_ERROR;
    while (prefix.len > 0 && prefix.data[prefix.len - 1] == '/')
        prefix.len--;
    if (prefix.len <= STATE_NAME_MAX)
        end = ngx_snprintf(name, room - 1, STATE_PREFIX "%V", &prefix);
    else
        end = ngx_snprintf(name, room - 1, STATE_PREFIX "-%08xD%*s",
                           ngx_crc32_long(prefix.data, prefix.len), (size_t)STATE_NAME_MAX,
                           prefix.data + prefix.len - STATE_NAME_MAX);
    *end = '\0';
    for (u_char *p = name + sizeof STATE_PREFIX - 1; p < end; p++)
        *p = *p == '/' ? '-' : *p;
    main->state = (ngx_str_t){(size_t)(end - name), name};
    return NGX_CONF_OK;
}

/* 0 after logging what is wrong. */
static size_t read_size(ngx_conf_t *cf, const char *name, ngx_str_t *text, uint64_t least)
{
    ssize_t bytes = ngx_parse_size(text);

    if (bytes == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid size \"%V\" of the %s; write a number, or one with k or m, "
                           "such as 64m",
                           text, name);
        return 0;
    }
    if ((uint64_t)bytes < least) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s of \"%V\" is too small; it needs %uL bytes",
                           name, text, least);
        return 0;
    }
    return (size_t)bytes;
}

static char *read_zone(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    struct rn_ngx_main *main = conf;
    ngx_str_t *words = cf->args->elts;

    (void)command;
    if (main->zone_given)
        return "is duplicate";
    main->zone_given = true;
    main->bytes = read_size(cf, "zone", &words[1], RN_TABLE_BYTES_MIN);
    if (main->bytes == 0)
        return NGX_CONF_ERROR;
    for (ngx_uint_t i = 2; i < cf->args->nelts; i++) {
        ngx_str_t value = {words[i].len - 6, words[i].data + 6};
        bool state = words[i].len > 6 && ngx_strncmp(words[i].data, "state=", 6) == 0;
        bool usage = words[i].len > 6 && ngx_strncmp(words[i].data, "usage=", 6) == 0;

        if (state && main->state.len == 0) {
            main->state = value;
            if (ngx_conf_full_name(cf->cycle, &main->state, 0) != NGX_OK)
                return NGX_CONF_ERROR;
        } else if (usage && main->usage_bytes == 0) {
            main->usage_bytes = read_size(cf, "usage", &value, RN_USAGE_BYTES_MIN);
            if (main->usage_bytes == 0)
                return NGX_CONF_ERROR;
        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"; there are state=FILE and usage=SIZE "
                               "only, each once",
                               &words[i]);
            return NGX_CONF_ERROR;
        }
    }
    return NGX_CONF_OK;
}

/* --- locations -------------------------------------------------------------------------------- */

static void *new_location(ngx_conf_t *cf)
{
    struct rn_ngx_location *location = ngx_pcalloc(cf->pool, sizeof *location);

    if (!location)
        return NULL;
    location->mode = location->headers = location->status = NGX_CONF_UNSET_UINT;
    location->body = location->log_level = NGX_CONF_UNSET_UINT;
    location->attributes = NGX_CONF_UNSET_PTR;
    location->server = NGX_CONF_UNSET_PTR;
    location->timeout_ms = NGX_CONF_UNSET_MSEC;
    return location;
}

static char *merge_location(ngx_conf_t *cf, void *parent, void *child)
{
    struct rn_ngx_location *outer = parent, *inner = child;
    struct rn_ngx_main *main = ngx_http_conf_get_module_main_conf(cf, ngx_http_ration_module);

    ngx_conf_merge_uint_value(inner->mode, outer->mode, RN_NGX_OFF);
    ngx_conf_merge_uint_value(inner->headers, outer->headers, RN_NGX_HEADERS_OF_RULE);
    ngx_conf_merge_uint_value(inner->status, outer->status, 0);
    ngx_conf_merge_uint_value(inner->body, outer->body, RN_NGX_BODY_AUTO);
    ngx_conf_merge_uint_value(inner->log_level, outer->log_level, NGX_LOG_WARN);
    ngx_conf_merge_ptr_value(inner->attributes, outer->attributes, NULL);
    ngx_conf_merge_msec_value(inner->timeout_ms, outer->timeout_ms, 0);
    ngx_conf_merge_ptr_value(inner->server, outer->server, NULL);
    if (inner->mode == RN_NGX_OFF)
        return NGX_CONF_OK;
    main->used = true;
    if (main->ruleset)
        return NGX_CONF_OK;
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"ration\" is on and there are no rules; add \"ration_rules FILE;\" to "
                       "http {}");
    return NGX_CONF_ERROR;
}

/* The index of the variable, if the text is one variable and nothing else; else NGX_ERROR.
 * $1 and the like are parts of a match, not variables. */
static ngx_int_t find_variable(ngx_conf_t *cf, ngx_str_t text)
{
    ngx_str_t name = {text.len - 1, text.data + 1};

    if (text.len < 2 || text.data[0] != '$' || (name.data[0] >= '0' && name.data[0] <= '9'))
        return NGX_ERROR;
    for (size_t i = 0; i < name.len; i++) {
        u_char c = name.data[i], lower = c | 0x20;

        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && c != '_')
            return NGX_ERROR;
    }
    return ngx_http_get_variable_index(cf, &name);
}

static char *read_attribute(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    struct rn_ngx_location *location = conf;
    ngx_str_t *words = cf->args->elts;
    struct rn_ngx_attribute *attribute;
    ngx_http_compile_complex_value_t compile;

    (void)command;
    if (words[1].len == 0)
        return "has an attribute without a name";
    if (location->attributes == NGX_CONF_UNSET_PTR)
        location->attributes = ngx_array_create(cf->pool, 4, sizeof *attribute);
    if (!location->attributes || !(attribute = ngx_array_push(location->attributes)))
        return NGX_CONF_ERROR;
    attribute->name = words[1];
    ngx_strlow(attribute->name.data, words[1].data, words[1].len);
    ngx_memzero(&compile, sizeof compile);
    compile.cf = cf;
    compile.value = &words[2];
    compile.complex_value = &attribute->value;
    attribute->variable = find_variable(cf, words[2]);
    return ngx_http_compile_complex_value(&compile) == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}

static ngx_conf_num_bounds_t status_bounds = {ngx_conf_check_num_bounds, 400, 599};
static ngx_conf_num_bounds_t waiting_bounds = {ngx_conf_check_num_bounds, 0, 1000000};

static ngx_conf_enum_t modes[] = {
    {ngx_string("off"), RN_NGX_OFF},
    {ngx_string("on"), RN_NGX_ON},
    {ngx_string("shadow"), RN_NGX_SHADOW},
    {ngx_null_string, 0},
};

static ngx_conf_enum_t families[] = {
    {ngx_string("rule"), RN_NGX_HEADERS_OF_RULE}, {ngx_string("both"), RATION_HEADERS_BOTH},
    {ngx_string("x"), RATION_HEADERS_X},          {ngx_string("ietf"), RATION_HEADERS_IETF},
    {ngx_string("none"), RATION_HEADERS_NONE},    {ngx_null_string, 0},
};

static ngx_conf_enum_t bodies[] = {
    {ngx_string("auto"), RN_NGX_BODY_AUTO},
    {ngx_string("json"), RN_NGX_BODY_JSON},
    {ngx_string("problem"), RN_NGX_BODY_PROBLEM},
    {ngx_string("off"), RN_NGX_BODY_OFF},
    {ngx_null_string, 0},
};

static ngx_conf_enum_t levels[] = {
    {ngx_string("debug"), NGX_LOG_DEBUG},   {ngx_string("info"), NGX_LOG_INFO},
    {ngx_string("notice"), NGX_LOG_NOTICE}, {ngx_string("warn"), NGX_LOG_WARN},
    {ngx_string("error"), NGX_LOG_ERR},     {ngx_null_string, 0},
};

#define IN_MAIN NGX_HTTP_MAIN_CONF
#define ANYWHERE (NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF)

#define DIRECTIVE(text, kind, read, where)                                                         \
    {                                                                                              \
        .name = ngx_string(text), .type = kind, .set = read,                                       \
        .conf = NGX_HTTP_##where##_CONF_OFFSET                                                     \
    }
/* A directive of one word, for a field of a location. */
#define FIELD(text, read, field, words)                                                            \
    {                                                                                              \
        .name = ngx_string(text), .type = ANYWHERE | NGX_CONF_TAKE1, .set = read,                  \
        .conf = NGX_HTTP_LOC_CONF_OFFSET, .offset = offsetof(struct rn_ngx_location, field),       \
        .post = words                                                                              \
    }

static ngx_command_t commands[] = {
    DIRECTIVE("ration_rules", IN_MAIN | NGX_CONF_1MORE, rn_ngx_rules_read, MAIN),
    DIRECTIVE("ration_zone", IN_MAIN | NGX_CONF_TAKE123, read_zone, MAIN),
    {.name = ngx_string("ration_waiting"),
     .type = IN_MAIN | NGX_CONF_TAKE1,
     .set = ngx_conf_set_num_slot,
     .conf = NGX_HTTP_MAIN_CONF_OFFSET,
     .offset = offsetof(struct rn_ngx_main, waiting),
     .post = &waiting_bounds},
    DIRECTIVE("ration_server", ANYWHERE | NGX_CONF_1MORE, rn_ngx_server_read, LOC),
    DIRECTIVE("ration_attribute", ANYWHERE | NGX_CONF_TAKE2, read_attribute, LOC),
    FIELD("ration_status", ngx_conf_set_num_slot, status, &status_bounds),
    FIELD("ration", ngx_conf_set_enum_slot, mode, modes),
    FIELD("ration_headers", ngx_conf_set_enum_slot, headers, families),
    FIELD("ration_error_body", ngx_conf_set_enum_slot, body, bodies),
    FIELD("ration_log_level", ngx_conf_set_enum_slot, log_level, levels),
    ngx_null_command,
};

/* --- hooks --------------------------------------------------------------------------------- */

static ngx_int_t add_handler(ngx_conf_t *cf, ngx_http_phases phase, ngx_http_handler_pt handle)
{
    ngx_http_core_main_conf_t *core = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    ngx_http_handler_pt *handler = ngx_array_push(&core->phases[phase].handlers);

    if (!handler)
        return NGX_ERROR;
    *handler = handle;
    return NGX_OK;
}

static ngx_int_t add_handlers(ngx_conf_t *cf)
{
    rn_ngx_headers_init();
    if (add_handler(cf, NGX_HTTP_PREACCESS_PHASE, rn_ngx_handler) != NGX_OK)
        return NGX_ERROR;
    return add_handler(cf, NGX_HTTP_LOG_PHASE, rn_ngx_charge_later_run);
}

static ngx_http_module_t context = {
    .preconfiguration = rn_ngx_variables_add,
    .postconfiguration = add_handlers,
    .create_main_conf = new_main,
    .init_main_conf = init_main,
    .create_loc_conf = new_location,
    .merge_loc_conf = merge_location,
};

ngx_module_t ngx_http_ration_module = {
    NGX_MODULE_V1,
    .ctx = &context,
    .commands = commands,
    .type = NGX_HTTP_MODULE,
    .init_module = rn_ngx_zone_prepare,
    .init_process = rn_ngx_zone_open,
    .exit_process = rn_ngx_zone_close,
};

/* What nginx looks for in the file. The filter must run where those of other modules
 * do. */
#define EXPORTED __attribute__((visibility("default")))

extern ngx_module_t *ngx_modules[];
extern char *ngx_module_names[];
extern char *ngx_module_order[];

EXPORTED ngx_module_t *ngx_modules[] = {&ngx_http_ration_module, NULL};
EXPORTED char *ngx_module_names[] = {"ngx_http_ration_module", NULL};
EXPORTED char *ngx_module_order[] = {"ngx_http_ration_module", "ngx_http_copy_filter_module", NULL};
