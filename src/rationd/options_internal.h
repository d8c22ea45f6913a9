/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings, shared by options.c and environment.c, which find the texts, and
 * settings.c, which reads them.
 */
#ifndef RN_RATIOND_OPTIONS_INTERNAL_H
#define RN_RATIOND_OPTIONS_INTERNAL_H

#include "rationd/options.h"

/* How to read the text, and the type of the field. */
enum rn_rationd_spec_kind {
    RN_SPEC_TEXT,  /* no field: `values` has it */
    RN_SPEC_FLAG,  /* bool */
    RN_SPEC_COUNT, /* uint32_t from min to max */
    RN_SPEC_SIZE,  /* uint64_t from min on */
    RN_SPEC_TIME,  /* int64_t ns from min to max */
    RN_SPEC_WORD,  /* an enum: the index of the word */
};

struct rn_rationd_spec {
    const char *name;      /* as an option; with _ instead of - in `server:` */
    const char *value;     /* the word for it in help: FILE; NULL: not an option */
    const char *about;     /* for help, with the default in parentheses; \n between lines */
    const char *otherwise; /* the default, which is right in any case. NULL: the field is 0 */
    enum rn_rationd_spec_kind kind;
    size_t offset; /* in struct rn_rationd_options */
    int64_t min, max;
    const char *right;        /* what to write, for error messages */
    const char *const *words; /* ends with NULL */
};
extern const struct rn_rationd_spec rn_rationd_specs[RN_SET_COUNT];

/* Options that are no settings: the first is --config. Ends with a name of NULL. */
struct rn_rationd_word {
    const char *name, *value, *about;
};
extern const struct rn_rationd_word rn_rationd_words[];

/* Prints what is wrong with a value, and where it was given. Returns false. */
bool rn_rationd_options_refuse(const struct rn_rationd_options *options,
                               const struct rn_ruleset *ruleset, enum rn_rationd_setting which,
                               const char *advice);

/* As above, without the value: it may contain a password. */
bool rn_rationd_options_refuse_secret(const struct rn_rationd_options *options,
                                      const struct rn_ruleset *ruleset,
                                      enum rn_rationd_setting which, const char *advice);

/* Reads all values and sets up the log. False after an error message. */
bool rn_rationd_settings_read(struct rn_rationd_options *options, const struct rn_ruleset *ruleset);

/* --- environment.c -------------------------------------------------------------------------- */

/* Writes RATION_NAME, the variable of an option. */
void rn_rationd_environment_name(const char *option, char name[RN_SOURCE_MAX]);

/* The value of the option's variable. NULL: unset or empty. */
const char *rn_rationd_environment_find(const char *option);

/* Takes the files of RATION_CONFIG. False after an error message: there are too many. */
bool rn_rationd_environment_read_configs(struct rn_rationd_options *options);

/* Logs variables that look like misspelt ones of ours. */
void rn_rationd_environment_warn(void);

#endif
