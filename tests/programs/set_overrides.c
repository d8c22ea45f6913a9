/* SPDX-License-Identifier: Apache-2.0 */
/*
 * set_overrides set STATE COUNT
 * set_overrides list STATE
 *
 * `set` sets that many overrides, one after the other, every third of them twice
 * and with a ban beside it, and prints the number of each when it has been
 * acknowledged. `list` prints the overrides that are there, one number and its
 * limit a line, and `bans N`; or what is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ration/clients.h>
#include <ration/rules.h>

static const char rules[] = "limits:\n  - { name: a, key: user, limit: 10 per hour }\n";

static void demand(int code, const struct ration_error *error)
{
    if (code != 0 || error->text[0] != '\0')
        fprintf(stderr, "%s\n", error->text);
    if (code != 0)
        exit(1);
}

static void set_one(struct ration *r, unsigned number, unsigned amount)
{
    char name[16], limit[32];
    struct ration_attribute user = {"user", 4, name, 0};
    struct ration_override o = {
        .rule = "a", .rule_len = 1, .attributes = &user, .count = 1, .limit = limit};
    struct ration_error error;

    user.value_len = (size_t)snprintf(name, sizeof name, "%u", number);
    o.limit_len = (size_t)snprintf(limit, sizeof limit, "%u per hour", amount);
    demand(ration_override_set(r, &o, &error), &error);
}

static void ban_one(struct ration *r, unsigned number)
{
    char name[16];
    struct ration_attribute user = {"user", 4, name, 0};
    struct ration_error error;

    user.value_len = (size_t)snprintf(name, sizeof name, "%u", number);
    demand(ration_ban_set(r, &(struct ration_ban){.attributes = &user, .count = 1}, &error),
           &error);
}

static void set_all(struct ration *r, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (i % 3 == 0) {
            ban_one(r, i);
            set_one(r, i, 1);
        }
        set_one(r, i, 20 + i);
        printf("%u\n", i);
        fflush(stdout);
    }
}

static int print_override(void *arg, const struct ration_override *o)
{
    (void)arg;
    if (!o->active)
        printf("inactive ");
    printf("%.*s %.*s\n", (int)o->attributes[0].value_len, o->attributes[0].value,
           (int)o->limit_len, o->limit);
    return 0;
}

static int count_ban(void *arg, const struct ration_ban *ban)
{
    (void)ban;
    ++*(unsigned *)arg;
    return 0;
}

int main(int argc, char **argv)
{
    struct ration *r;
    struct ration_error error;
    unsigned bans = 0;

    if (argc < 3)
        return 2;
    demand(ration_open(&(struct ration_options){.state_path = argv[2], .memory_bytes = 1 << 20}, &r,
                       &error),
           &error);
    if (ration_rules_parse(r, "rules", rules, strlen(rules), NULL) != 0)
        return 1;
    if (strcmp(argv[1], "set") == 0 && argc == 4) {
        set_all(r, (unsigned)atoi(argv[3]));
    } else {
        ration_override_each(r, NULL, 0, print_override, NULL);
        ration_ban_each(r, count_ban, &bans);
        printf("bans %u\n", bans);
    }
    ration_close(r);
    return 0;
}
