/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What escalate and earn mean, written as plainly as possible: times as they are, lists that are
 * never trimmed. Shares no code with core/.
 *
 * Both models round times in the one way that core/escalate.h and core/earn.h document, so that
 * they must agree with the words in every answer. The proofs below do not round: they look at the
 * list of all refusals, and say whether a ban or a loss was earned by the clock's own readings.
 */
#ifndef MODEL_REPUTATION_H
#define MODEL_REPUTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Refusals and when the clock said that they were. */
struct model_refusals {
    int64_t *at_ns;
    size_t count, room;
};

/* --- escalate --------------------------------------------------------------------------------- */

#define MODEL_LEVELS 32

struct model_escalation { /* the rule */
    uint32_t after;
    int64_t within_ns, forget_ns;
    int64_t ban_ns[MODEL_LEVELS]; /* by level; [0] is not used */
};

struct model_offender {
    struct model_escalation rule;
    bool counting; /* a window is open since window_ns, with `counted` refusals */
    int64_t window_ns;
    uint32_t counted;
    uint32_t level; /* of the last ban; 0: none, or forgotten */
    int64_t ban_ends_ns, forgotten_ns;

    struct model_refusals refusals; /* that model_offender_note has seen since the last ban */
    uint32_t exact_level;           /* the level as it would be without rounding */
    int64_t exact_begun_ns, exact_ends_ns, exact_forgotten_ns;
};

void model_offender_init(struct model_offender *o, const struct model_escalation *rule);
void model_offender_done(struct model_offender *o);

/* How long the client is still banned; 0: it is not. */
int64_t model_offender_rest_ns(const struct model_offender *o, int64_t now_ns);

/* A refusal by the limit. True: a ban begins. */
bool model_offender_refuse(struct model_offender *o, int64_t now_ns);

/* Call it for each refusal of a client that is not banned. */
void model_offender_note(struct model_offender *o, int64_t now_ns);

/* Call it when a ban of `level` that ends at `ends_ns` has begun. True: `after` of the refusals
 * since the last ban were less than `within` apart, the level is at most the exact one, and the end
 * at most the exact one. */
bool model_offender_has_earned(struct model_offender *o, uint32_t level, int64_t ends_ns,
                               int64_t now_ns);

/* --- earn ---------------------------------------------------------------------------------------
 */

struct model_earning { /* the rule */
    int64_t every_ns, forget_ns, lost_within_ns;
    unsigned add, up_to; /* percent */
    uint32_t lost_after;
};

struct model_earner {
    struct model_earning rule;
    bool known; /* a period is open since start_ns */
    int64_t start_ns;
    unsigned percent;
    bool counting;
    int64_t window_ns;
    uint32_t counted;

    struct model_refusals refusals; /* all since the last loss */
};

void model_earner_init(struct model_earner *e, const struct model_earning *rule);
void model_earner_done(struct model_earner *e);

unsigned model_earner_percent(const struct model_earner *e, int64_t now_ns);
void model_earner_admit(struct model_earner *e, int64_t now_ns);

/* A refusal by the limit. True: all is lost. */
bool model_earner_refuse(struct model_earner *e, int64_t now_ns);

/* Call it when all was lost. True: lost_after of the refusals since the last loss were less than
 * `lost_within` apart. */
bool model_earner_has_lost(struct model_earner *e);

#endif
