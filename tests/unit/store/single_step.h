/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops a process after any of its instructions, so that another one can change what it works
 * on, exactly there. Tests are skipped on processors without a plain trap instruction.
 */
#ifndef RN_TESTS_STORE_SINGLE_STEP_H
#define RN_TESTS_STORE_SINGLE_STEP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NEEDS_SINGLE_STEP
#else
#define NEEDS_SINGLE_STEP skip()
#endif

/* In memory that the child shares: it has run all of `act`. */
static _Atomic bool *act_done;

/* A child that runs `act`, and is stopped before. */
static inline pid_t start_stopped(void (*act)(unsigned), unsigned arg)
{
    pid_t child;
    int status;

    *act_done = false;
    child = fork();
    assert_true(child >= 0);
#if defined(__x86_64__)
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(1);
        __asm__ volatile("int3");
        act(arg);
        *act_done = true;
        __asm__ volatile("int3");
        _exit(0);
    }
#else
    (void)act, (void)arg;
#endif
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

/* Lets it run one instruction. */
static inline void step(pid_t child)
{
    int status;

    assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
}

/* Runs `act` in a child and stops it after so many instructions, or at the end. */
static inline pid_t stop_after(unsigned instructions, void (*act)(unsigned), unsigned arg)
{
    pid_t child = start_stopped(act, arg);

    for (; instructions > 0 && !*act_done; instructions--)
        step(child);
    return child;
}

static inline void end(pid_t child, bool run_to_the_end)
{
    int status;

    if (run_to_the_end && !*act_done) {
        assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSTOPPED(status) && *act_done);
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

#endif
