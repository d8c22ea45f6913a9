/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for writing numbers. */
#include "wire/pen.h"

#define POWER(n) UINT64_C(1##n)
const uint64_t rn_pen_powers[] = {
    0, /* so that 0 has a digit */
    POWER(0),
    POWER(00),
    POWER(000),
    POWER(0000),
    POWER(00000),
    POWER(000000),
    POWER(0000000),
    POWER(00000000),
    POWER(000000000),
    POWER(0000000000),
    POWER(00000000000),
    POWER(000000000000),
    POWER(0000000000000),
    POWER(00000000000000),
    POWER(000000000000000),
    POWER(0000000000000000),
    POWER(00000000000000000),
    POWER(000000000000000000),
    POWER(0000000000000000000),
};

const char rn_pen_pairs[] = "00010203040506070809"
                            "10111213141516171819"
                            "20212223242526272829"
                            "30313233343536373839"
                            "40414243444546474849"
                            "50515253545556575859"
                            "60616263646566676869"
                            "70717273747576777879"
                            "80818283848586878889"
                            "90919293949596979899";
