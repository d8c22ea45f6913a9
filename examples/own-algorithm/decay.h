/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A counter that decays: what was spent counts half after each period. "100 per minute" admits 100
 * at once, and then as much as has faded: 50 in the first minute, 69 a minute for a client that
 * asks all the time. No window ends, so that nobody waits for one to end, and a client that was
 * quiet gets most of its units back early.
 */
#ifndef DECAY_H
#define DECAY_H

#include <ration/algorithm.h>

extern const struct ration_own_algorithm decay;

#endif
