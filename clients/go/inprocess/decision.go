// SPDX-License-Identifier: Apache-2.0

// An outcome of libration as the decision that rationd would answer with FULL.

package inprocess

/*
#include <ration/rules.h>
*/
import "C"

import (
	"math"
	"time"

	ration "github.com/ration/ration/clients/go"
)

var families = [...]string{C.RATION_HEADERS_BOTH: "both", C.RATION_HEADERS_X: "x", C.RATION_HEADERS_IETF: "ietf", C.RATION_HEADERS_NONE: "none"}

func decisionOf(o *C.struct_ration_outcome) *ration.Decision {
	verdict := &o.decision.verdict
	d := &ration.Decision{Allowed: bool(o.decision.allowed), Rule: C.GoString(&o.rule[0]), Limit: -1, Remaining: -1,
		ResetAfter: time.Duration(verdict.reset_after_ns), RetryAfter: time.Duration(verdict.retry_after_ns),
		Delay: time.Duration(o.delay_ns), Soft: bool(o.soft), Shadow: bool(o.shadow_refused), Status: 200,
		By: "libration", At: time.Now(), DecidedBy: int(o.decision.decided_by), Family: families[o.headers],
		Joined: bool(o.retryafter), Text: C.GoString(&o.message[0])}
	if o.kind == C.RATION_BY_LIMITS {
		d.Limit, d.Remaining = counted(verdict)
	}
	for i := range o.limits[:o.listed] {
		each := &o.limits[i]
		limit := ration.Limit{Rule: C.GoString(&each.rule[0]), ResetAfter: time.Duration(each.verdict.reset_after_ns),
			Allowed: bool(each.verdict.allowed), Shadow: bool(each.shadow), Told: true,
			Amount: float64(each.amount), Period: time.Duration(each.period_ns)}
		limit.Limit, limit.Remaining = counted(&each.verdict)
		d.Limits = append(d.Limits, limit)
	}
	if !d.Allowed {
		refuse(d, o)
	}
	return d
}

func refuse(d *ration.Decision, o *C.struct_ration_outcome) {
	d.Status, d.Error = int(o.status), "rate_limited"
	switch o.kind {
	case C.RATION_BY_DENY_LIST:
		d.Error = "denied"
	case C.RATION_BY_BAN, C.RATION_BY_ESCALATION:
		d.Error, d.Banned, d.Level = "banned", true, int(o.level)
	case C.RATION_BY_PAUSE:
		d.Error, d.Paused = "paused", true
	}
}

// counted is -1 twice for what is unlimited.
func counted(v *C.struct_ration_verdict) (limit, remaining int64) {
	if v.limit > math.MaxInt64 {
		return -1, -1
	}
	return int64(v.limit), int64(v.remaining)
}
