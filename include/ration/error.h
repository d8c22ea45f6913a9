/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors. Every function that can fail returns 0 or one of the negative codes
 * below; the out parameters are then untouched. A refused request is not an
 * error: it is a verdict.
 */
#ifndef RATION_ERROR_H
#define RATION_ERROR_H

#include <stddef.h>

/* Marks what the library exports. */
#define RATION_API __attribute__((visibility("default")))

/* One table makes the enum, the names and the texts. */
#define RATION_ERRORS(X)                                                                           \
    X(EINVAL, -1, "invalid argument")                                                              \
    X(EPARSE, -2, "text that cannot be understood")                                                \
    X(ENOMEM, -3, "out of memory")                                                                 \
    X(EIO, -4, "a system call failed")                                                             \
    X(EFULL, -5, "no room for another live key")                                                   \
    X(EBUSY, -6, "the state file is being created or rebuilt by another process")                  \
    X(EFOREIGN, -7, "not a ration state file")                                                     \
    X(EVERSION, -8, "a state file of another version")                                             \
    X(ETORN, -9, "a damaged state file")                                                           \
    X(EGONE, -10, "the lease or reservation has ended")                                            \
    X(EALREADY, -12, "the reservation has been settled before")                                    \
    X(ENORULE, -13, "there is no such rule")                                                       \
    X(EUNMATCHED, -14, "the rule does not apply to this request")                                  \
    X(EPLACES, -15, "not possible for a limit of concurrency")                                     \
    X(ENOSETTING, -16, "there is no such setting")                                                 \
    X(ESTORE, -17, "the shared store gave no answer in time")                                      \
    X(ESEVERAL, -18, "several limits apply, and only a single one can be drained")                 \
    X(EBOARD, -19, "the table has no room for the factors of more rules")                          \
    X(EWAITS, -20, "in line; ask again when its turn has come")                                    \
    X(EALGORITHM, -21, "an algorithm of your own has broken its contract")

enum ration_error_code {
#define RATION_ERROR_ENUM(name, value, text) RATION_##name = (value),
    RATION_ERRORS(RATION_ERROR_ENUM)
#undef RATION_ERROR_ENUM
};

/* What went wrong, for a human. `pos` is a byte offset into the text that was
 * parsed; `line` and `column` are 1-based, 0 when there is no file. */
struct ration_error {
    int code;
    size_t pos;
    unsigned line, column;
    char text[240];
};

/* "EFULL", and "no room for another live key"; "EUNKNOWN" for other numbers. */
RATION_API const char *ration_error_name(int code);
RATION_API const char *ration_error_text(int code);

#endif
