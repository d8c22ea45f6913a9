/* SPDX-License-Identifier: Apache-2.0 */
/* A request target, behind a byte of settings: readings are bounded, spelt as the header
 * says, and read as themselves; a path that counts as plain has one reading. */
#include <stdlib.h>

#include "rules/match/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rn_path_readings first, again;

static void demand(int condition)
{
    if (!condition)
        abort();
}

/* Begins with a slash, ends with none, has no empty segment and no bare %. */
static void demand_spelt(struct rn_slice text)
{
    demand(text.len > 0 && text.data[0] == '/' &&
           (text.len == 1 || text.data[text.len - 1] != '/'));
    for (size_t i = 1; i < text.len; i++) {
        demand(text.data[i] != '/' || text.data[i - 1] != '/');
        demand(text.data[i] != '?' && text.data[i] != '#');
        if (text.data[i] == '%')
            demand(text.len - i > 2 && strchr("23", text.data[i + 1]) != NULL &&
                   strchr("5F3B", text.data[i + 2]) != NULL);
    }
}

static void demand_sound(struct rn_slice target, const struct rn_path_settings *settings)
{
    demand(first.count >= 1 && first.count <= RN_PATH_READINGS_MAX);
    if (first.unreadable) {
        demand(first.count == 1 && rn_slice_equal(first.text[0], RN_SLICE("%")));
        return;
    }
    for (uint32_t i = 0; i < first.count; i++) {
        demand_spelt(first.text[i]);
        for (uint32_t k = 0; k < i; k++)
            demand(!rn_slice_equal(first.text[i], first.text[k]));
    }
    rn_path_read_all(first.text[0], settings, &again);
    demand(rn_slice_equal(again.text[0], first.text[0]));
    if (rn_path_is_plain(rn_path_cut_query(target), settings))
        demand(first.count == 1 && rn_slice_equal(first.text[0], rn_path_cut_query(target)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct rn_path_settings settings = {.ignore_case = data[0] & 1,
                                        .ignore_extension = (data[0] & 2) != 0,
                                        .parameters =
                                            (enum rn_path_parameters)((data[0] >> 2) % 3)};
    struct rn_slice target = {(const char *)data + 1, size - 1};
    size_t room = 3 * target.len + 2;
    char *out = malloc(room);

    rn_path_read_all(target, &settings, &first);
    demand_sound(target, &settings);
    if (out) {
        struct rn_slice spelt = rn_path_spell(target, &settings, out, room);

        demand(spelt.data || settings.parameters == RN_PARAMETERS_IGNORE);
    }
    free(out);
    return 0;
}
