# SPDX-License-Identifier: Apache-2.0
# Tests of the clients, for dev, which sources this file: in the tree (./dev test), and as packages that are installed
# (./dev test-clients).

# The package of Python, built from its own metadata. Frameworks are Debian's, and FastAPI as frameworks.txt pins it.
test_client_of_python() {
    install_packages openssl python3-django python3-flask python3-pip python3-pytest python3-setuptools python3-venv \
        python3-wheel python3-yaml
    folder=$PWD/build/clients/python
    rm -rf "$folder"
    mkdir -p "$folder"
    cp -r clients/python "$folder/source" # setuptools writes beside the sources
    "$PYTHON" -m pip wheel -q --no-deps --no-build-isolation -w "$folder" "$folder/source" >&2
    "$PYTHON" -m venv --system-site-packages "$folder/venv"
    "$folder/venv/bin/pip" install -q --no-deps --no-index "$folder"/*.whl >&2
    "$folder/venv/bin/pip" install -q --require-hashes -r clients/python/tests/frameworks.txt >&2 ||
        say "FastAPI cannot be had from PyPI: the tests will skip it"
    say "testing the package of Python"
    "$folder/venv/bin/python" -m pytest -q -p no:cacheprovider clients/python/tests
}

# The package of Node as npm packs it, in an empty folder. Frameworks are those of its lockfile.
test_client_of_node() {
    command -v npm >/dev/null || install_packages nodejs npm
    install_packages openssl
    folder=$PWD/build/clients/node
    rm -rf "$folder"
    mkdir -p "$folder"
    npm pack --silent --pack-destination "$folder" ./clients/node >&2
    node -p 'JSON.stringify({ private: true, devDependencies: require("./clients/node/package.json").devDependencies })' \
        >"$folder/package.json"
    cp -r clients/node/package-lock.json clients/node/tests "$folder"
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error &&
        npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error ./ration-client-*.tgz) >&2
    say "testing the package of Node"
    RATION_ROOT=$PWD node "$folder/tests/all.js"
}

# In the source tree, without outages under load.
short_test_of_node() {
    command -v npm >/dev/null || install_packages nodejs npm
    [ clients/node/node_modules/.package-lock.json -nt clients/node/package-lock.json ] ||
        (cd clients/node && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) >&2
    mkdir -p "$RESULTS"
    say "testing the client of Node"
    node clients/node/tests/all.js short >"$RESULTS/client-node.tap" || {
        cat "$RESULTS/client-node.tap" >&2
        grep -q '^1\.\.' "$RESULTS/client-node.tap" # else it has not run to its end
    }
}

# With a file for pkg-config in the folder: cgo asks it for libration of RATION_BUILD. The headers are those of the tree.
deps_of_go() {
    command -v go >/dev/null || install_packages golang-go
    install_packages gcc libc6-dev pkg-config python3
    mkdir -p "$1"
    library=$(realpath "${RATION_BUILD:-build}")
    printf 'Name: ration\nDescription: libration\nVersion: 0.1.0\nCflags: -I%s/include\nLibs: -L%s -l:libration.so.0 -Wl,-rpath,%s\n' \
        "$PWD" "$library" "$library" >"$1/ration.pc"
}

# go in a folder, with what deps_of_go has put into another one.
run_go() {
    (
        export RATION_BUILD="$library" GOTOOLCHAIN=local GOWORK=off PKG_CONFIG_PATH="$1"
        cd "$2"
        shift 2
        go "$@"
    )
}

# The modules of Go, as a proxy would serve them, required by the module of the tests. With an empty module cache.
test_client_of_go() {
    folder=$PWD/build/clients/go
    modules=github.com/ration/ration/clients/go
    rm -rf "$folder"
    deps_of_go "$folder"
    "$PYTHON" clients/go/tests/publish.py "$folder/proxy"
    cp -r clients/go/tests "$folder/tests"
    run_go "$folder" "$folder/tests" mod edit -dropreplace $modules -dropreplace $modules/rationgrpc
    say "testing the modules of Go"
    (
        export RATION_SCENARIOS="$PWD/clients/scenarios.yaml" GOMODCACHE="$folder/modules" GONOSUMDB='github.com/ration/*' \
            GOPROXY="file://$folder/proxy,$(go env GOPROXY)" GOFLAGS='-mod=mod -modcacherw -buildvcs=false'
        run_go "$folder" "$folder/tests" vet $modules/...
        run_go "$folder" "$folder/tests" test -count=1 $modules/...
    )
}

# In the tree, as TAP, and without the failures: ./dev test-clients
short_test_of_go() {
    deps_of_go "$PWD/build/clients/go-short"
    mkdir -p "$RESULTS"
    for module in clients/go clients/go/tests; do
        run_go "$PWD/build/clients/go-short" $module test -count=1 -v -run '^Test[^F]' ./... 2>&1 || printf 'FAIL\t%s\n' $module
    done >"$RESULTS/go.txt"
    sed -n -e 's/^ *--- PASS: \(.*\) (.*/ok - go \1/p' -e 's/^ *--- FAIL: \(.*\) (.*/not ok - go \1/p' \
        -e 's/^ *--- SKIP: \(.*\) (.*/ok - go \1 # SKIP/p' -e 's/^FAIL[[:space:]]\{1,\}\([^[:space:]].*\)/not ok - go \1/p' "$RESULTS/go.txt" >"$RESULTS/go.tap"
    ! grep '^not ok' "$RESULTS/go.tap" >&2 || cat "$RESULTS/go.txt" >&2
}

# The packages of Java. Maven fetches plugins and frameworks into the user's own repository, from Maven's central one.
maven_of_java() {
    install_packages default-jdk-headless maven openssl
    mvn -q -B -ntp "$@" >&2
}

# Installed into a repository that has only what Maven has fetched, and tested from there.
test_client_of_java() {
    folder=$PWD/build/clients/java
    rm -rf "$folder"
    mkdir -p "$folder"
    [ ! -d "$HOME/.m2/repository" ] || cp -r "$HOME/.m2/repository" "$folder/repository"
    rm -rf "$folder/repository/io/github/ration"
    maven_of_java -f clients/java/pom.xml -Dmaven.repo.local="$folder/repository" -Dration.build="$folder/target" \
        -pl .,client,servlet,spring install
    say "testing the packages of Java"
    maven_of_java -f clients/java/tests/pom.xml -Dmaven.repo.local="$folder/repository" -Dration.build="$folder/target" test
}

# In the source tree, and not the failures; for tests/summary.py.
short_test_of_java() {
    target=$PWD/build/clients/java-tree
    rm -rf "$target"
    failed=
    maven_of_java -f clients/java/pom.xml -Dration.build="$target" -Dtest='!FailuresTest' -Dsurefire.failIfNoSpecifiedTests=false test || failed=yes
    mkdir -p "$RESULTS"
    for report in "$target"/ration-tests/surefire-reports/TEST-*.xml; do
        cp "$report" "$RESULTS/java-${report##*/TEST-}" || failed=yes # none: it did not compile
    done
    [ -z "$failed" ]
}

# Those that ./dev test runs: without the outages under load. Python's are among the system tests.
short_tests_of_clients() {
    for language in go java node; do
        step "test the client of $language" "short_test_of_$language" || true
    done
}

test_clients() {
    deps_build
    set_up build gcc
    meson compile -C build rationd ration:shared_library >&2
    for language in ${1:-go java node python}; do
        case $language in
        go | java | node | python) "test_client_of_$language" ;;
        *) die "no client in $language: there are go, java, node and python" ;;
        esac
    done
}
