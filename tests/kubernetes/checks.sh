# Compares the results of a test with the expected ones; to be sourced. $passed counts the checks.

check() { # check WHAT EXPECTED FOUND
    if [ "$2" != "$3" ]; then
        printf '%s\n  expected: %s\n  found:    %s\n' "$1" "$2" "$3" >&2
        exit 1
    fi
    passed=$((passed + 1))
}
