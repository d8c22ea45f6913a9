/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration schema`: the JSON Schema of rules files, for editors.
 */
#include "wire/schema.h"

#include <stdio.h>

#include "cli/command.h"

int rn_command_schema(const struct rn_options *options)
{
    (void)options;
    fwrite(rn_schema_json.data, 1, rn_schema_json.len, stdout); /* main looks for errors */
    return RN_EXIT_OK;
}
