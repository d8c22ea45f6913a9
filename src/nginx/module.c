/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that nginx reads when it loads the module.
 */
#include "nginx/module.h"

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
    .create_main_conf = rn_ngx_config_new_main,
    .init_main_conf = rn_ngx_config_init_main,
    .create_loc_conf = rn_ngx_config_new_location,
    .merge_loc_conf = rn_ngx_config_merge_location,
};

ngx_module_t ngx_http_ration_module = {
    NGX_MODULE_V1,
    .ctx = &context,
    .commands = rn_ngx_commands,
    .type = NGX_HTTP_MODULE,
    .init_module = rn_ngx_zone_prepare,
    .init_process = rn_ngx_zone_open,
    .exit_process = rn_ngx_zone_close,
};

/* What nginx looks for in the file. The filter is to run where those of other
 * modules do. */
#define EXPORTED __attribute__((visibility("default")))

extern ngx_module_t *ngx_modules[];
extern char *ngx_module_names[];
extern char *ngx_module_order[];

EXPORTED ngx_module_t *ngx_modules[] = {&ngx_http_ration_module, NULL};
EXPORTED char *ngx_module_names[] = {"ngx_http_ration_module", NULL};
EXPORTED char *ngx_module_order[] = {"ngx_http_ration_module", "ngx_http_copy_filter_module", NULL};
