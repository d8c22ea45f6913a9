/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON Schema of rules files, for editors: schema/ration.schema.json, which schema/embed.py
 * makes a part of the programs.
 */
#ifndef RN_WIRE_SCHEMA_H
#define RN_WIRE_SCHEMA_H

#include "base/slice.h"

extern const struct rn_slice rn_schema_json; /* the text of the file */

#endif
