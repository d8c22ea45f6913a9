/* SPDX-License-Identifier: Apache-2.0 */
/* Counts between two signals that the child sends itself. */
#include "steps.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static long step_through(void (*work)(void *, uint64_t), void *context, uint64_t count)
{
    pid_t child = fork();
    long steps = 0;
    int status;

    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        work(context, 10);
        raise(SIGTRAP);
        work(context, count);
        raise(SIGTRAP);
        _exit(0);
    }
    waitpid(child, &status, 0);
    while (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 &&
           waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        siginfo_t info;

        steps++;
        if (ptrace(PTRACE_GETSIGINFO, child, NULL, &info) == 0 && info.si_code == SI_TKILL)
            break;
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return steps;
}

double bench_steps(void (*work)(void *context, uint64_t count), void *context, uint64_t count)
{
    long once = step_through(work, context, count);

    return (double)(step_through(work, context, 3 * count) - once) / (double)(2 * count);
}
