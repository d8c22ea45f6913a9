// SPDX-License-Identifier: Apache-2.0

// A site with Go's net/http: two handlers that note what they were called with. Usage: site PORT
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
)

var (
	mutex sync.Mutex
	calls = []string{}
)

func note(call string) {
	mutex.Lock()
	defer mutex.Unlock()
	calls = append(calls, call)
}

func main() {
	http.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			note("login " + r.URL.Path)
		}
	})
	http.HandleFunc("/items/", func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		if r.Method != http.MethodPost || len(parts) != 4 || parts[3] != "buy" {
			http.NotFound(w, r)
			return
		}
		note("buy " + parts[2])
	})
	http.HandleFunc("/calls", func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		json.NewEncoder(w).Encode(calls)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
