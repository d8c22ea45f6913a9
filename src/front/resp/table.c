/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the RESP port.
 */
#include "front/resp/resp_internal.h"

#define ANY RN_RESP_ARGS_MAX

const struct rn_resp_entry rn_resp_entries[] = {
    {"CL.THROTTLE", 5, 6, RN_RESP_JOINS, "charge a bucket, as redis-cell does",
     "key max_burst count period [quantity]", rn_front_resp_cl_throttle},
    {"GCRA", 5, 7, RN_RESP_JOINS, "charge a bucket, as Redis does",
     "key max_burst tokens period [TOKENS n]", rn_front_resp_gcra},
    {"THROTTLE", 5, 6, RN_RESP_JOINS, "charge a bucket, as throttlecrab does",
     "key max_burst count period [quantity]", rn_front_resp_throttle},
    {"RATION.TAKE", 3, 9, RN_RESP_JOINS, "charge a limit that is given as text",
     "key limit [cost] [ALGORITHM name] [WAIT ms|hold|return] [DRAIN]", rn_front_resp_take},
    {"RATION.CHECK", 1, ANY, RN_RESP_DECIDES, "charge all rules that apply, or none",
     "attribute value [attribute value ...] [COST n] [WAIT ms|hold|return] [PEEK] [DRAIN] [LEASE] "
     "[SHADOW] [FULL] [LINE id]",
     rn_front_resp_check},
    {"RATION.LEAVE", 2, 2, 0, "leave the line that LINE id stands in", "id", rn_front_resp_leave},
    {"RATION.PEEK", 3, 8, RN_RESP_INLINE, "what RATION.TAKE would say",
     "key limit [cost] [ALGORITHM name] [WAIT ms|hold|return]", rn_front_resp_peek},
    {"RATION.RESET", 3, 5, RN_RESP_NEEDS_ADMIN, "forget what a key has spent",
     "key limit [ALGORITHM name]", rn_front_resp_reset_key},
    {"RATION.PAUSE", 2, ANY, 0, "admit nothing of a key or client for a while",
     "key [length|LIFT] | RULES attribute value ... [FOR length | LIFT] [RULE name]",
     rn_front_resp_pause},
    {"RATION.ACQUIRE", 3, ANY, 0, "take a place of a concurrency limit",
     "key limit [COST n] [FOR seconds] [WAIT ms|hold|return] | RULES attribute value ... [COST n] "
     "[FOR seconds] [WAIT ms|hold|return]",
     rn_front_resp_acquire},
    {"RATION.RENEW", 2, 4, 0, "keep a place for longer", "lease [FOR seconds]",
     rn_front_resp_renew},
    {"RATION.RELEASE", 2, 2, 0, "free a place", "lease", rn_front_resp_release},
    {"RATION.RESERVE", 3, ANY, 0, "charge now, settle later",
     "key limit cost [FOR seconds] [ALGORITHM name] [WAIT ms|hold|return] | RULES attribute value "
     "... [COST n] [FOR seconds] [WAIT ms|hold|return]",
     rn_front_resp_reserve},
    {"RATION.COMMIT", 2, 3, 0, "keep all of a reservation, or this much of it", "lease [cost]",
     rn_front_resp_commit},
    {"RATION.REFUND", 2, 2, 0, "give a reservation back, or leave a queue", "lease|turn",
     rn_front_resp_refund},
    {"RATION.CHARGE", 3, 3, 0, "tell how a request ended", "charge status",
     rn_front_resp_charge_outcome},
    {"RATION.OUTCOME", 3, 4, 0, "tell how a request of a rule ended, for signals",
     "rule status [seconds]", rn_front_resp_outcome},
    {"RATION.SIGNAL", 3, 3, RN_RESP_NEEDS_ADMIN, "set the value of a pushed signal", "name value",
     rn_front_resp_signal},
    {"RATION.HELP", 1, 1, RN_RESP_INLINE, "this list", "", rn_front_resp_help},
    {"PING", 1, 2, RN_RESP_INLINE, "are you there", "[text]", rn_front_resp_ping},
    {"ECHO", 2, 2, RN_RESP_INLINE, "say it again", "text", rn_front_resp_echo},
    {"HELLO", 1, 7, RN_RESP_INLINE, "choose the protocol", "[2|3 [AUTH user token] [SETNAME name]]",
     rn_front_resp_hello},
    {"AUTH", 2, 3, RN_RESP_INLINE, "show the token, for commands that change things",
     "[user] token", rn_front_resp_auth},
    {"SELECT", 2, 2, RN_RESP_INLINE, "there is one database: 0", "0", rn_front_resp_select},
    {"QUIT", 1, 1, RN_RESP_INLINE, "end the connection", "", rn_front_resp_quit},
    {"RESET", 1, 1, RN_RESP_INLINE, "the connection as it was at first", "", rn_front_resp_reset},
    {"CLIENT", 2, ANY, RN_RESP_INLINE, "what clients say about themselves", "subcommand ...",
     rn_front_resp_client},
    {"INFO", 1, ANY, RN_RESP_INLINE, "about the server", "[section ...]", rn_front_resp_info},
    {"COMMAND", 1, ANY, RN_RESP_INLINE, "about the commands",
     "[COUNT | LIST | INFO name ... | DOCS name ...]", rn_front_resp_command},
    {"CONFIG", 3, ANY, RN_RESP_INLINE, "settings that clients query for", "GET name ...",
     rn_front_resp_config},
};

const size_t rn_resp_entry_count = sizeof rn_resp_entries / sizeof *rn_resp_entries;

const struct rn_resp_entry *rn_front_resp_find(struct rn_slice name)
{
    for (size_t i = 0; i < rn_resp_entry_count; i++)
        if (rn_front_resp_is(name, rn_resp_entries[i].name))
            return &rn_resp_entries[i];
    return NULL;
}
