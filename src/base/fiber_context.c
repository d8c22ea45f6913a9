/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch is a function call, so the compiler has saved all registers that a call may
 * change. The rest go onto the stack that is left: those that a function must preserve,
 * and the control words of floating-point arithmetic. Then the stack pointers are
 * exchanged, and the same registers are read from the other stack.
 *
 * Both stacks have the same layout at the exchange, so the unwind information (.cfi)
 * holds before and after it. The first frame of a fiber has no caller: its return
 * address is marked undefined, where debuggers and unwinders stop.
 */
#include "base/fiber_internal.h"

#include <string.h>

#ifdef RN_FIBER_UCONTEXT

bool rn_fiber_context_init(struct rn_fiber_context *context, void *stack, size_t bytes,
                           void (*entry)(void))
{
    if (getcontext(&context->ucontext) != 0)
        return false;
    context->ucontext.uc_stack.ss_sp = stack;
    context->ucontext.uc_stack.ss_size = bytes;
    makecontext(&context->ucontext, entry, 0);
    return true;
}

void rn_fiber_context_switch(struct rn_fiber_context *from, struct rn_fiber_context *to)
{
    swapcontext(&from->ucontext, &to->ucontext);
}

#else

/* Where the first switch to a stack goes. Calls the function in `entry` below. */
void rn_fiber_context_start(void);

#define BEGIN(name)                                                                                \
    ".text\n.p2align 4\n.globl " name "\n.hidden " name "\n.type " name ", %function\n" name       \
    ":\n.cfi_startproc\n"
#define END(name) ".cfi_endproc\n.size " name ", . - " name "\n"

#ifdef __x86_64__

/* What a switch leaves on the stack, lowest address first. */
struct saved {
    uint32_t mxcsr;
    uint16_t x87_control, unused;
    void (*entry)(void); /* r15 */
    uint64_t r14_to_r12[3], rbx, rbp;
    void (*return_to)(void);
};

#define PUSH(name) "pushq %" name "\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset %" name ", 0\n"
#define POP(name) "popq %" name "\n.cfi_adjust_cfa_offset -8\n.cfi_restore %" name "\n"

/* clang-format off */
__asm__(BEGIN("rn_fiber_context_switch")
        PUSH("rbp") PUSH("rbx") PUSH("r12") PUSH("r13") PUSH("r14") PUSH("r15")
        "subq $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "stmxcsr (%rsp)\n"
        "fnstcw 4(%rsp)\n"
        "movq %rsp, (%rdi)\n"
        "movq (%rsi), %rsp\n"
        "ldmxcsr (%rsp)\n"
        "fldcw 4(%rsp)\n"
        "addq $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        POP("r15") POP("r14") POP("r13") POP("r12") POP("rbx") POP("rbp")
        "ret\n"
        END("rn_fiber_context_switch")
        BEGIN("rn_fiber_context_start")
        ".cfi_undefined %rip\n"
        "callq *%r15\n"
        "ud2\n"
        END("rn_fiber_context_start"));
/* clang-format on */

static void copy_float_control(struct saved *saved)
{
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(saved->mxcsr), "=m"(saved->x87_control));
}

#else /* __aarch64__ */

struct saved {
    void (*entry)(void); /* x19 */
    uint64_t x20_to_x29[10];
    void (*return_to)(void); /* x30 */
    double d8_to_d15[8];
    uint64_t fpcr, unused;
};

#define STORE(a, b, at)                                                                            \
    "stp " a ", " b ", [sp, #" at "]\n.cfi_rel_offset " a ", " at "\n.cfi_rel_offset " b ", " at   \
    " + 8\n"
#define LOAD(a, b, at) "ldp " a ", " b ", [sp, #" at "]\n.cfi_restore " a "\n.cfi_restore " b "\n"

/* clang-format off */
__asm__(BEGIN("rn_fiber_context_switch")
        "sub sp, sp, #176\n"
        ".cfi_def_cfa_offset 176\n"
        STORE("x19", "x20", "0") STORE("x21", "x22", "16") STORE("x23", "x24", "32")
        STORE("x25", "x26", "48") STORE("x27", "x28", "64") STORE("x29", "x30", "80")
        STORE("d8", "d9", "96") STORE("d10", "d11", "112")
        STORE("d12", "d13", "128") STORE("d14", "d15", "144")
        "mrs x9, fpcr\n"
        "str x9, [sp, #160]\n"
        "mov x10, sp\n"
        "str x10, [x0]\n"
        "ldr x10, [x1]\n"
        "mov sp, x10\n"
        "ldr x9, [sp, #160]\n"
        "msr fpcr, x9\n"
        LOAD("x19", "x20", "0") LOAD("x21", "x22", "16") LOAD("x23", "x24", "32")
        LOAD("x25", "x26", "48") LOAD("x27", "x28", "64") LOAD("x29", "x30", "80")
        LOAD("d8", "d9", "96") LOAD("d10", "d11", "112")
        LOAD("d12", "d13", "128") LOAD("d14", "d15", "144")
        "add sp, sp, #176\n"
        ".cfi_def_cfa_offset 0\n"
        "ret\n"
        END("rn_fiber_context_switch")
        BEGIN("rn_fiber_context_start")
        ".cfi_undefined x30\n"
        "blr x19\n"
        "brk #0\n"
        END("rn_fiber_context_start"));
/* clang-format on */

static void copy_float_control(struct saved *saved)
{
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved->fpcr));
}

#endif

/* Writes what a switch would have left: it returns to rn_fiber_context_start, with the
 * stack empty and aligned to 16 bytes. */
bool rn_fiber_context_init(struct rn_fiber_context *context, void *stack, size_t bytes,
                           void (*entry)(void))
{
    struct saved saved = {.entry = entry, .return_to = rn_fiber_context_start};
    char *top = (char *)stack + bytes;

    top -= (uintptr_t)top % 16;
    copy_float_control(&saved);
    context->stack_pointer = memcpy(top - sizeof saved, &saved, sizeof saved);
    return true;
}

#endif
