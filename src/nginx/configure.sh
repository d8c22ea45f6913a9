#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: configure.sh SOURCE OUTPUT SCRATCH
# Finds out what nginx's own configure would about this machine, for modules
# that nginx loads: OUTPUT/ngx_auto_config.h and OUTPUT/ngx_auto_headers.h.
# SOURCE is nginx's source; Debian's package nginx-dev keeps the options of its
# build beside it.
set -eu

source=$1 output=$(realpath "$2") scratch=$3
NGX_CONF_FLAGS=(--with-compat)

rm -rf "$scratch"
mkdir -p "$scratch"
cp -r "$source/." "$scratch"
cd "$scratch"
# shellcheck disable=SC1091  # not part of this tree
[ ! -f conf_flags ] || . ./conf_flags
./configure "${NGX_CONF_FLAGS[@]}" >configure.log 2>&1 || {
    cat configure.log >&2
    exit 1
}
cp objs/ngx_auto_config.h objs/ngx_auto_headers.h "$output"
