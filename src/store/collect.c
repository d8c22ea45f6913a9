/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "store/blocks.h"

/* One byte for each two words of the arena: the smallest block. */
static bool mark(unsigned char *marks, uint64_t offset)
{
    bool before = marks[offset / 2];

    marks[offset / 2] = 1;
    return !before;
}

/* Marks the blocks that slots refer to. */
static void mark_blocks(struct rn_table *table, unsigned char *marks)
{
    struct rn_slot *slots = table->groups[0].slots;

    for (uint64_t i = 0; i < table->group_count * RN_GROUP_SLOTS; i++) {
        struct rn_slot_value v = rn_slot_load(&slots[i]);
        bool sound;

        if (!rn_tag_has_block(v.tag))
            continue;
        sound = rn_block_sound(table, v.state) && mark(marks, rn_block_offset(v.state));
        if (sound) {
            struct rn_block_shape shape =
                rn_block_shape(table->slab_words, rn_block_class(v.state));

            for (uint32_t k = 0; k < shape.slabs; k++)
                sound &= mark(marks,
                              (uint64_t)rn_block_piece(table, &shape, rn_block_offset(v.state), k) *
                                  table->slab_words);
        }
        if (!sound)
            rn_slot_swap(&slots[i], v, (struct rn_slot_value){0, 0});
    }
}

/* A slab's word as its marks tell, with a list of what is free. */
static uint64_t collect_slab(struct rn_table *table, uint64_t slab, const unsigned char *marks)
{
    uint64_t before = table->slabs[slab], version = ((before >> 32) + 1) << 32, used = 0;
    unsigned class = rn_slab_class(before);
    uint64_t first = RN_SLAB_END;

    if (class > table->class_whole)
        return version;
    for (uint32_t b = rn_slab_blocks(table, class); b-- > 0;) {
        uint64_t offset = slab * table->slab_words + b * rn_blocks_class_words(class);

        if (marks[offset / 2]) {
            used++;
            continue;
        }
        table->arena[offset] = first;
        first = b;
    }
    return used == 0 ? version : version | (uint64_t)(class + 1) << 24 | first << 12 | used;
}

int rn_blocks_collect(struct rn_table *table)
{
    struct rn_header *h = table->header;
    unsigned char *marks = calloc(table->slab_count * table->slab_words / 2 + 1, 1);

    if (!marks)
        return RATION_ENOMEM;
    mark_blocks(table, marks);
    h->slabs_free = 0;
    memset(h->loose, 0, sizeof h->loose);
    for (uint64_t i = 0; i < table->slab_count; i++) {
        uint64_t word = collect_slab(table, i, marks);
        unsigned class = rn_slab_class(word);

        table->slabs[i] = word;
        if (class > table->class_whole)
            h->slabs_free++;
        else
            h->loose[class].blocks += rn_slab_blocks(table, class) - (uint32_t)rn_slab_used(word);
    }
    free(marks);
    return 0;
}
