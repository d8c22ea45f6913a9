/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of a decision, whatever the protocol: by rules (attributes of a
 * request) or by a limit that comes with the request (a key and the limit's text).
 */
#ifndef RN_FRONT_PARAMS_H
#define RN_FRONT_PARAMS_H

#include <ration/rules.h>

#include "base/slice.h"
#include "wire/json.h"
#include "wire/resp.h"

#define RN_PARAMS_ATTRIBUTES_MAX RN_RESP_ATTRIBUTES_MAX
#define RN_STATUS_MIN 100
#define RN_STATUS_MAX 999
#define RN_RESERVE_FOR_NS INT64_C(60000000000) /* how long a reservation stays open by default */

enum rn_wait {
    RN_WAIT_AS_RULE,
    RN_WAIT_RETURN, /* answer at once, with the delay */
    RN_WAIT_HOLD,   /* answer when the delay has passed */
};

struct rn_params {
    bool by_limit; /* `key` and `limit` count, not the attributes */
    struct rn_slice key;
    struct ration_limit limit;
    struct rn_slice limit_text, algorithm; /* of a JSON object, for `limit`; data NULL: not given */
    size_t limit_at;                       /* where the text stands in it */
    uint32_t attribute_count;
    struct ration_attribute attributes[RN_PARAMS_ATTRIBUTES_MAX];
    uint64_t cost;
    bool cost_given;
    bool credit; /* the cost was negative: give `cost` units back */
    bool drain;
    bool peek;
    bool shadow;      /* refuse and delay nothing */
    bool keep_places; /* a check answers with the lease of its places */
    bool full;        /* RESP: the reply is for a gateway */
    bool line;        /* RESP: which waits in line under `line_id`, and delays the request itself */
    uint64_t line_id;
    enum rn_wait wait;
    int64_t max_wait_ns;    /* a longer delay is a refusal; 0: as the rules say */
    int64_t for_ns;         /* of a lease or reservation; 0: not given */
    struct rn_slice lease;  /* its ticket; data NULL: not given */
    struct rn_slice charge; /* the ticket of a charge by outcome; data NULL: not given */
    uint64_t status;        /* of the outcome; 0: not given */
};

/* The members of a JSON object that a caller may give, as bits. */
enum rn_param {
    RN_PARAM_ATTRIBUTES = 1,
    RN_PARAM_COST = 2,
    RN_PARAM_WAIT = 4,
    RN_PARAM_PEEK = 8,
    RN_PARAM_KEY = 16,
    RN_PARAM_LIMIT = 32,
    RN_PARAM_ALGORITHM = 64,
    RN_PARAM_KEYED = RN_PARAM_KEY | RN_PARAM_LIMIT | RN_PARAM_ALGORITHM,
    RN_PARAM_FOR = 128,
    RN_PARAM_LEASE = 256,
    RN_PARAM_CHARGE = 512,
    RN_PARAM_STATUS = 1024,
    RN_PARAM_DRAIN = 2048,
    RN_PARAM_CREDIT = 4096, /* a cost that may be negative, of callers that may change state */
};

/* Sets all but the attributes to what a request means that gives nothing: cost 1. */
void rn_params_init(struct rn_params *params);

/* Reads the members of the object that the last token began. 0, or RATION_EINVAL with
 * json->error: what is wrong and where. `allowed` has the bits of the members that may be
 * given. rn_params_check finds what is missing. */
int rn_params_read(struct rn_params *params, struct rn_json *json, unsigned allowed);

/* Whether the parameters are for rules or for a limit, and not for both or neither. */
int rn_params_check(const struct rn_params *params, struct ration_error *error);

/* Parses a limit: 0, or RATION_EINVAL and in `error` what is wrong and where. */
int rn_params_parse_limit(struct rn_slice text, struct ration_limit *limit,
                          struct ration_error *error);
/* The same into params->limit, with the algorithm's name if its data is not NULL. */
int rn_params_set_limit(struct rn_params *params, struct rn_slice text, struct rn_slice algorithm,
                        struct ration_error *error);

/* How long to wait: hold, return, or seconds up to 60. False: something else. */
bool rn_params_parse_wait(struct rn_params *params, struct rn_slice text);

/* A decimal number such as 0.7, -12 or 1e6. False: something else. */
bool rn_params_parse_number(struct rn_slice text, double *value);

/* Adds an attribute, and changes its name to lower case in place. RATION_EINVAL: too many. */
int rn_params_add(struct rn_params *params, char *name, size_t name_len, struct rn_slice value);

/* --- objects with other members ----------------------------------------------------------- */

enum rn_param_kind {
    RN_VALUE_TEXT,  /* goes into the rn_slice at `offset` */
    RN_VALUE_FLAG,  /* goes into the bool at `offset` */
    RN_VALUE_OTHER, /* `read` reads it */
};

/* A member of a JSON object, read into a struct of the caller's. */
struct rn_param_member {
    const char *name;
    unsigned bit;
    enum rn_param_kind kind;
    size_t offset;
    int (*read)(void *into, struct rn_json *json, const struct rn_json_token *token);
};

#define RN_PARAMS_MEMBERS_MAX 32

/* As rn_params_read, with a table of members. Sets in *given the bits of those that were given. */
int rn_params_read_members(const struct rn_param_member *members, size_t count, void *into,
                           struct rn_json *json, unsigned allowed, unsigned *given);
/* The allowed member whose name is nearest to this one; NULL: none is near. */
const char *rn_params_suggest(const struct rn_param_member *members, size_t count, unsigned allowed,
                              struct rn_slice name);

/* Readers of single values, into a struct rn_params. */
int rn_params_read_attributes(void *params, struct rn_json *json,
                              const struct rn_json_token *token);
int rn_params_read_cost(void *params, struct rn_json *json, const struct rn_json_token *token);

#endif
