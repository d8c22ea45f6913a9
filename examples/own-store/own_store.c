/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that live in an SQLite file: any number of processes share them.
 *
 *     own-store FILE "100 per minute" KEY TIMES
 *
 * asks TIMES times for one unit and prints how many were admitted, refused, or failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ration/ration.h>

#include "sqlite_store.h"

int main(int argc, char **argv)
{
    struct ration_named limit = {.name = "example"};
    struct ration_error error;
    struct ration *r;
    int admitted = 0, refused = 0, failed = 0;

    if (argc != 5 || ration_limit_parse(argv[2], strlen(argv[2]), &limit.limit, &error) != 0) {
        fprintf(stderr, "usage: own-store FILE \"100 per minute\" KEY TIMES\n");
        return 2;
    }
    struct sqlite_store *file = sqlite_store_open(argv[1], 1000);

    if (!file) {
        fprintf(stderr, "own-store: cannot open %s\n", argv[1]);
        return 1;
    }
    struct ration_store store = sqlite_store_ops(file);
    struct ration_options options = {.limits = &limit, .limit_count = 1, .store = &store};

    if (ration_open(&options, &r, &error) != 0) {
        fprintf(stderr, "own-store: %s\n", error.text);
        sqlite_store_close(file);
        return 1;
    }
    for (int i = 0; i < atoi(argv[4]); i++) {
        struct ration_charge c = {.key = argv[3], .key_len = strlen(argv[3]), .cost = 1};

        if (ration_take(r, &c, RATION_NOW) != 0)
            failed++;
        else if (c.verdict.allowed)
            admitted++;
        else
            refused++;
    }
    printf("admitted %d refused %d failed %d\n", admitted, refused, failed);
    ration_close(r);
    sqlite_store_close(file);
    return 0;
}
