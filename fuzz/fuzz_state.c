/* SPDX-License-Identifier: Apache-2.0 */
/* A state file with changes made to it: opened or refused with a reason, and if opened
 * every limit answers within its bounds and the file is sound when it is closed.
 *
 * The input is a byte of which bit 0 says whether check sums are made right again, and
 * then changes of 10 bytes: which of the words that are not 0, and what it is XORed with. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/mapping.h"
#include "unit/store/every_form.h"

#define BYTES (UINT64_C(2) << 20)
#define CHANGE_BYTES 10
#define CHANGES_MAX 64
#define KEYS 4 /* of each kind */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned kinds[] = {TOKENS, STEPS, WINDOW, COUNTER, SUBS, SMALL_LOG, OWN, PLACES};
#define KIND_COUNT (sizeof kinds / sizeof *kinds)

static char folder[64], path[80];
static uint64_t *sound; /* the file as it was */
static uint32_t *filled, filled_count;

static void demand(int condition)
{
    if (!condition)
        abort();
}

static int open_table(struct rn_table **table, struct ration_error *error)
{
    struct rn_table_options options = {.path = path};

    return rn_table_open(&options, table, error);
}

static void ask(struct rn_table *table, unsigned kind, uint64_t key, enum rn_op op, int64_t now)
{
    struct rn_limit limit = compiled(&every_form[kind].spec[0]);
    struct rn_charge c = {.limit = &limit,
                          .key = key_of(key),
                          .ask = {.op = op,
                                  .now_ns = now,
                                  .wall_offset_ns = rn_table_wall_offset(table, now),
                                  .cost = 1,
                                  .id = 1,
                                  .lease_ns = MINUTE,
                                  .at_ns = now}};

    rn_store_apply(rn_table_store(table), &c, 1);
    demand(c.error == 0 || c.error == RATION_EFULL);
    if (c.error != 0 || op == RN_RESET)
        return;
    demand(c.answer.remaining <= limit.cap);
    demand(c.answer.retry_after_ns >= 0 && c.answer.retry_after_ns <= RATION_LEASE_MAX_NS);
    demand(c.answer.reset_after_ns >= 0 && c.answer.delay_ns >= 0);
}

static void use(struct rn_table *table, int64_t now, uint64_t first)
{
    for (unsigned i = 0; i < KEYS * KIND_COUNT; i++) {
        unsigned kind = kinds[i % KIND_COUNT];

        ask(table, kind, first + i, RN_PEEK, now);
        ask(table, kind, first + i, RN_TAKE, now);
        ask(table, kind, first + i, RN_OLDEST, now);
        if (i / KIND_COUNT == 1)
            ask(table, kind, first + i, RN_GIVE_BACK, now);
        if (i / KIND_COUNT == 2)
            ask(table, kind, first + i, RN_RESET, now);
    }
}

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

static void prepare(void)
{
    struct rn_table_options options = {.path = path, .bytes = BYTES, .block_share = 80};
    struct rn_table *table;
    int fd;

    snprintf(folder, sizeof folder, "/tmp/ration-fuzz-XXXXXX");
    demand(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/state", folder);
    atexit(remove_folder);
    demand(rn_table_open(&options, &table, NULL) == 0);
    use(table, rn_table_now(table), 0);
    rn_table_close(table);
    sound = malloc(BYTES);
    filled = malloc(BYTES / 8 * sizeof *filled);
    fd = open(path, O_RDONLY);
    demand(fd >= 0 && read(fd, sound, BYTES) == (ssize_t)BYTES);
    close(fd);
    for (uint32_t i = 0; i < BYTES / 8; i++)
        if (sound[i] != 0)
            filled[filled_count++] = i;
}

static void write_file(const uint8_t *data, size_t size)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);

    demand(fd >= 0 && ftruncate(fd, (off_t)BYTES) == 0);
    uint64_t *words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct rn_header *h = (struct rn_header *)words;

    demand(words != MAP_FAILED);
    memcpy(words, sound, BYTES);
    for (size_t at = 1; at + CHANGE_BYTES <= size && at < CHANGES_MAX * CHANGE_BYTES;
         at += CHANGE_BYTES) {
        uint16_t word;
        uint64_t by;

        memcpy(&word, data + at, sizeof word);
        memcpy(&by, data + at + sizeof word, sizeof by);
        words[filled[word % filled_count]] ^= by;
    }
    if (size != 0 && data[0] & 1) {
        h->check = rn_mapping_header_check(h);
        rn_anchor_save(&h->anchor);
        rn_anchor_save(&h->anchor);
    }
    munmap(words, BYTES);
    close(fd);
}

static int see(void *arg, const struct rn_table_entry *entry)
{
    (void)arg;
    demand(entry->form != RN_FORM_NONE);
    return 0;
}

/* A clock that lies ahead has the file set aside. */
static void remove_aside(const struct ration_error *error)
{
    const char *name = strstr(error->text, "set aside as \"");
    char aside[200];

    if (name && sscanf(name, "set aside as \"%199[^\"]", aside) == 1)
        unlink(aside);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ration_error error;
    struct rn_table *table;
    struct rn_table_memory memory;

    if (!sound)
        prepare();
    write_file(data, size);
    int code = open_table(&table, &error);

    remove_aside(&error);
    if (code != 0) {
        demand(strstr(error.text, "left alone") != NULL);
        return 0;
    }
    int64_t now = rn_table_now(table);

    use(table, now, 0);
    use(table, now, 1000);
    rn_table_each(table, now, see, NULL);
    rn_table_memory(table, now, &memory);
    demand(memory.live <= memory.slots && memory.block_bytes_used <= memory.block_bytes);
    rn_table_clean(table, now + HOUR);
    rn_table_close(table);
    demand(open_table(&table, &error) == 0 && error.text[0] == '\0');
    rn_table_close(table);
    return 0;
}
