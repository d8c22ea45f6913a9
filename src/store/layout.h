/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to store/: what the mapping looks like. Position-independent; the
 * same bytes serve as anonymous memory and as the state file.
 *
 *   header   one struct rn_header, padded to RN_PAGE
 *   board    RN_BOARD_BYTES for the caller's own (rn_table_board); none in layout version 3
 *   groups   `groups` times 8 slots of 16 bytes
 *   slabs    one word for each slab: see rn_slab_word
 *   arena    `slabs` times `slab_words` words, each slab cut into blocks of one size
 *
 * A slot is {tag, state}:
 *
 *   tag     hash of the key (58 bits) | keep (1 bit) | last (1 bit) | kind (4 bits); 0: empty
 *   kind    an rn_form, or RN_KIND_PENDING: claimed, nothing charged yet
 *   state   word forms: the word
 *           block forms: class (8 bits) | version (24 bits) | offset (32 bits)
 *           pending: time of the claim with random low bits
 *
 * and only ever changes by one 16-byte compare-and-swap.
 */
#ifndef RN_STORE_LAYOUT_H
#define RN_STORE_LAYOUT_H

#include "base/anchor.h"
#include "base/siphash.h"
#include "base/thread.h"
#include "store/table.h"

#define RN_PAGE 4096
#define RN_MAGIC UINT64_C(0x656C626174766E72) /* "rnvtable" */
#define RN_LAYOUT_VERSION 4
#define RN_LAYOUT_OLDEST 3 /* without a board: rebuilt when it is opened */

#define RN_GROUP_SLOTS 8
/* Filled so far, about one key in 10^7 finds both its groups full. */
#define RN_SLOT_LOAD_PERCENT 68
#define RN_SLAB_WORDS_MIN 512
#define RN_SLAB_WORDS_MAX 4096
#define RN_BLOCK_WORDS_MAX 32768 /* 16,000 places; a larger block than a slab has pieces */
#define RN_CLASSES 111
#define RN_NIL UINT32_MAX
#define RN_EVICT_POOL 8

#define RN_KIND_MASK UINT64_C(15)
#define RN_KIND_PENDING UINT64_C(15)
#define RN_TAG_LAST UINT64_C(16) /* RN_CHARGE_EVICT_LAST */
#define RN_TAG_KEEP UINT64_C(32)
#define RN_TAG_HASH (~UINT64_C(63))

struct rn_slot {
    _Alignas(16) uint64_t tag;
    uint64_t state;
};

struct rn_group {
    _Alignas(128) struct rn_slot slots[RN_GROUP_SLOTS];
};

/* One slab, changed by compare-and-swap alone, so that taking a block, giving it back and
 * giving the empty slab back are one step each:
 *
 *   version (32 bits) | drain (1) | class + 1 (7) | first free block (12) | blocks used (12)
 *
 * 0 but for the version: in the pool. Of a draining slab no block is taken. */
#define RN_SLAB_DRAIN (UINT64_C(1) << 31)
#define RN_SLAB_END UINT64_C(0xFFF) /* no free block */

struct rn_header {
    /* fixed at creation, covered by the check sum */
    uint64_t magic;
    uint32_t version, header_bytes;
    uint64_t bytes, groups, slabs, slab_words;
    uint64_t groups_at, slabs_at, arena_at;
    struct rn_hash_key secret;
    uint64_t check;

    /* has check sums of its own: base/clock.h */
    _Alignas(128) struct rn_anchor anchor;
    /* statistics, and a number that only ever differs: any value is harmless */
    _Alignas(128) uint64_t evictions;
    uint64_t generation; /* of what lies beside the file: see rn_table_generation */
    /* hints, made again from the slots by a process that is alone: never believed */
    _Alignas(128) uint64_t slabs_free; /* in the pool */
    uint64_t slab_last_freed;
    /* Blocks of each class that are free in slabs in use and not drained, and where
     * the last one was. */
    _Alignas(128) struct rn_loose {
        uint32_t blocks, slab;
    } loose[RN_CLASSES];
};

/* What one operation on a block needs, so that it need not allocate. Any
 * thread takes the one at its index if it is free, else the next. All zeros is
 * a context with no spares: it is made so in a child after a fork, which must not
 * use the spares of its parent. */
struct rn_context {
    _Alignas(128) uint32_t busy;
    uint32_t spare_plus_1[RN_CLASSES]; /* a block of each class; 0: none */
    uint64_t scratch[RN_BLOCK_WORDS_MAX];
    uint64_t moving[RN_SLAB_WORDS_MAX];
};

/* How far this process has come in looking for room: see store/sweep.h. */
struct rn_sweep {
    _Alignas(128) uint64_t at;    /* groups visited ever */
    uint64_t pass_ends;           /* at this many, slabs to drain are chosen again */
    uint64_t draining;            /* slabs chosen */
    uint64_t credit;              /* groups that may be visited before a live key must go */
    uint64_t loose_next;          /* loose words from which on another pass is worth it */
    int64_t barren_until_ns;      /* every block is of a key to keep; look again at this time */
    uint64_t evict_at;            /* groups searched ever for a key to evict: see store/evict.h */
    uint64_t pool[RN_EVICT_POOL]; /* the best slots that were left, from 1 on; 0: none */
    uint64_t widest;              /* of the largest block met that does not go last */
};

struct rn_table {
    struct rn_table_face face;
    struct rn_header *header;
    struct rn_group *groups;
    uint64_t *slabs;
    uint64_t *arena;
    uint64_t group_count; /* header's fields, out of the shared cache line */
    uint64_t slab_count;
    uint64_t bytes;
    uint32_t slab_words;
    unsigned slab_shift;  /* log2 of them */
    unsigned class_whole; /* the class of a block that is a whole slab */
    int fd;
    char *path;                  /* absolute; NULL without a file */
    struct rn_context *contexts; /* RN_THREADS of them */
    struct rn_table *next;       /* of this process: see mapping.c */
    struct rn_sweep sweep;
};

/* Points the table at a mapping whose header is valid. */
void rn_table_attach(struct rn_table *table, void *mapping, int fd);

/* One slot as read; consistent unless it changed meanwhile, which a
 * compare-and-swap from it would notice. */
struct rn_slot_value {
    uint64_t tag, state;
};

/* Two loads, which see the halves of one swap or of a later one: the first acquires, so that the
 * second cannot be older, and the second acquires, so that neither the third load nor what is read
 * of a block comes before it. */
static inline struct rn_slot_value rn_slot_load(const struct rn_slot *slot)
{
    for (;;) {
        uint64_t tag = __atomic_load_n(&slot->tag, __ATOMIC_ACQUIRE);
        uint64_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

        if (__atomic_load_n(&slot->tag, __ATOMIC_RELAXED) == tag)
            return (struct rn_slot_value){tag, state};
    }
}

/* The thread sanitizer puts a lock in place of a 16-byte swap, and other processes do not
 * see that lock. */
#if defined(__SANITIZE_THREAD__)
#define RN_SLOT_SWAP static __attribute__((unused, noinline, no_sanitize_thread))
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RN_SLOT_SWAP static __attribute__((unused, noinline, disable_sanitizer_instrumentation))
#endif
#endif
#ifndef RN_SLOT_SWAP
#define RN_SLOT_SWAP static inline
#endif

/* gcc's 16-byte _Atomic would call libatomic, whose locks other processes do
 * not see. The __sync builtin is one instruction (x86-64: cmpxchg16b; arm64 from v8.1 on: caspal)
 * or a loop of ldxp and stlxp, which stores only if nobody else has.
 *
 * A swap that succeeds is a full barrier, and all of store/ relies on that:
 *   - a claim must be visible before its thread looks for others (slots.c, and records.c alike);
 *   - a block may be written again only after all can see that its slot has changed.
 * gcc documents that of __sync builtins. clang makes them seq_cst only, and then a later plain
 * access may pass the stlxp of arm64. */
RN_SLOT_SWAP bool rn_slot_swap(struct rn_slot *slot, struct rn_slot_value from,
                               struct rn_slot_value to)
{
    __extension__ typedef unsigned __int128 pair;
    pair old = (pair)from.state << 64 | from.tag, new = (pair)to.state << 64 | to.tag;

    bool swapped = __sync_bool_compare_and_swap((pair *)(void *)slot, old, new);
#if defined(__clang__) && !defined(__x86_64__)
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    return swapped;
}

static inline enum rn_form rn_tag_form(uint64_t tag)
{
    return (enum rn_form)(tag & RN_KIND_MASK);
}

static inline bool rn_tag_has_block(uint64_t tag)
{
    unsigned kind = (unsigned)(tag & RN_KIND_MASK);

    return !rn_form_is_word(kind) && kind != RN_KIND_PENDING;
}

#endif
