// SPDX-License-Identifier: Apache-2.0

//go:build cgo

// Decisions in the process, on the state file of the rationd of this benchmark.

package main

import (
	"fmt"

	"github.com/ration/ration/clients/go/inprocess"
)

const (
	moreWork = 20   // a decision takes so little that a round needs more of them
	goal     = 0.30 // microseconds
)

func inTheProcess(folder string) {
	local := must(inprocess.Open(inprocess.Options{State: folder + "/state", Rules: []string{folder + "/rules.yaml"}}))
	defer local.Close()
	count := moreWork * calls
	take := func() { must(local.Take("ann", limit, 1)) }
	allows := func() { must(local.Allows(1, "ip", "192.0.2.7", "path", "/api")) }
	verdict("Take()", show("go in the process, Take()", count, repeat(count, take)))
	show(fmt.Sprintf("go in the process, Take(), %d goroutines", many), count, func() {
		for i := 0; i < moreWork; i++ {
			together(take)()
		}
	})
	verdict("Allows()", show("go in the process, Allows()", count, repeat(count, allows)))
	show("go in the process, Check()", calls, repeat(calls, func() { must(local.Check(ctx, asked)) }))
}

func verdict(name string, us float64) {
	word := "ok"
	if us > goal {
		word = "missed"
	}
	fmt.Printf("%s - go in the process, %s takes %.2f us, goal %.2f us\n", word, name, us, goal)
}
