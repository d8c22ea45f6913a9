/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running, waiting and waking. fiber_context.c switches stacks, and reports each switch
 * to sanitizers.
 */
#include "base/fiber.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fiber_internal.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RN_ASAN
#elif __has_feature(thread_sanitizer)
#define RN_TSAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define RN_ASAN
#elif defined(__SANITIZE_THREAD__)
#define RN_TSAN
#endif
#ifdef RN_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef RN_TSAN
#include <sanitizer/tsan_interface.h>
#endif

struct rn_fiber {
    struct rn_fiber_context inside, outside;
    char *stack; /* begins with a guard page */
    size_t bytes;
    void (*main)(void *arg);
    void (*ended)(void *arg);
    void *arg;
    int64_t deadline_ns;
    bool running;

    /* For the sanitizers. */
    void *inside_mark, *outside_mark;
    const void *outside_stack;
    size_t outside_bytes;
};

static _Thread_local struct rn_fiber *current;

/* --- switching stacks ------------------------------------------------------------------ */

static void enter(struct rn_fiber *f)
{
    current = f;
#ifdef RN_ASAN
    __sanitizer_start_switch_fiber(&f->outside_mark, f->stack, f->bytes);
#elif defined(RN_TSAN)
    f->outside_mark = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(f->inside_mark, 0);
#endif
    rn_fiber_context_switch(&f->outside, &f->inside);
#ifdef RN_ASAN
    __sanitizer_finish_switch_fiber(f->outside_mark, NULL, NULL);
#endif
    current = NULL;
}

static void leave(struct rn_fiber *f)
{
#ifdef RN_ASAN
    __sanitizer_start_switch_fiber(&f->inside_mark, f->outside_stack, f->outside_bytes);
#elif defined(RN_TSAN)
    __tsan_switch_to_fiber(f->outside_mark, 0);
#endif
    rn_fiber_context_switch(&f->inside, &f->outside);
#ifdef RN_ASAN
    __sanitizer_finish_switch_fiber(f->inside_mark, &f->outside_stack, &f->outside_bytes);
#endif
}

static void live(void)
{
    struct rn_fiber *f = current;

#ifdef RN_ASAN
    __sanitizer_finish_switch_fiber(NULL, &f->outside_stack, &f->outside_bytes);
#endif
    for (;;) {
        f->main(f->arg);
        f->running = false;
        leave(f);
    }
}

/* --- the public calls
 * ------------------------------------------------------------------------------- */

struct rn_fiber *rn_fiber_new(size_t stack_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct rn_fiber *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;
    f->bytes = page + (stack_bytes + page - 1) / page * page;
    f->stack = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (f->stack == MAP_FAILED || mprotect(f->stack, page, PROT_NONE) != 0 ||
        !rn_fiber_context_init(&f->inside, f->stack, f->bytes, live)) {
        if (f->stack != MAP_FAILED)
            munmap(f->stack, f->bytes);
        free(f);
        return NULL;
    }
#ifdef RN_TSAN
    f->inside_mark = __tsan_create_fiber(0);
#endif
    return f;
}

void rn_fiber_free(struct rn_fiber *f)
{
    if (!f)
        return;
    assert(!f->running);
#ifdef RN_TSAN
    __tsan_destroy_fiber(f->inside_mark);
#endif
    munmap(f->stack, f->bytes);
    free(f);
}

bool rn_fiber_run(struct rn_fiber *f, void (*main)(void *arg), void (*ended)(void *arg), void *arg)
{
    assert(!current && !f->running);
    f->main = main;
    f->ended = ended;
    f->arg = arg;
    f->deadline_ns = INT64_MAX;
    f->running = true;
    enter(f);
    return !f->running;
}

void rn_fiber_wake(struct rn_fiber *f)
{
    assert(!current && f->running);
    enter(f);
    if (!f->running)
        f->ended(f->arg);
}

struct rn_fiber *rn_fiber_current(void)
{
    return current;
}

void rn_fiber_wait(void)
{
    assert(current);
    leave(current);
}

int64_t rn_fiber_deadline(void)
{
    return current ? current->deadline_ns : INT64_MAX;
}

void rn_fiber_set_deadline(int64_t deadline_ns)
{
    if (current)
        current->deadline_ns = deadline_ns;
}
