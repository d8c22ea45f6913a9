// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

// Without cgo there are no decisions in the process.

package main

func inTheProcess(string) {}
