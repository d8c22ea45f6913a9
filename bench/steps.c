/* SPDX-License-Identifier: Apache-2.0 */
/* Counts between two signals that the child sends itself. */
#include "steps.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTEMPTS 9 /* at most */
#define EQUAL 3    /* attempts with the fewest steps are enough */

/* On one processor each step is a switch to the other process, not a wake-up of another
 * processor, which takes several times as long. */
static void stay_on_this_processor(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
}

static long step_through(void (*work)(void *, uint64_t), void *context, uint64_t count)
{
    pid_t child = fork();
    long steps = 0;
    int status;

    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        work(context, 10);
        raise(SIGUSR1);
        work(context, count);
        raise(SIGUSR1);
        _exit(0);
    }
    waitpid(child, &status, 0);
    while (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 &&
           waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) != SIGUSR1)
        steps++;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return steps;
}

double bench_steps(void (*work)(void *context, uint64_t count), void *context, uint64_t count)
{
    cpu_set_t before;
    long fewest = LONG_MAX;

    sched_getaffinity(0, sizeof before, &before);
    stay_on_this_processor();
    long nothing = step_through(work, context, 0);

    for (int i = 0, equal = 0; i < ATTEMPTS && equal < EQUAL; i++) {
        long steps = step_through(work, context, count);

        if (steps < fewest) {
            fewest = steps;
            equal = 0;
        }
        equal += steps == fewest;
    }
    sched_setaffinity(0, sizeof before, &before);
    return (double)(fewest - nothing) / (double)count;
}
