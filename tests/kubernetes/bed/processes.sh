# Functions that start programs and wait for them; to be sourced. Logs go to $state/log, pids to the array `pids`.

start() { # start NAME COMMAND...; a program named in $again is restarted when it ends, and its pid is in $state/NAME.pid
    local run=("${launch[@]}" "${@:2}")
    mkdir -p "$state/log"
    # shellcheck disable=SC2016 # The inner shell expands them.
    case " ${again:-} " in *" $1 "*) run=("${launch[@]}" bash -c 'while :; do "${@:2}" & echo $! >"$1"; wait; sleep 2; done' again "$state/$1.pid" "${run[@]}") ;; esac
    "${run[@]}" >"$state/log/$1.log" 2>&1 </dev/null &
    pids+=($!)
}

wait_for() { # wait_for SECONDS NAME COMMAND...: waits until the command succeeds, or fails and prints the end of NAME's log
    local until=$((SECONDS + $1))
    until "${@:3}" >/dev/null 2>&1; do
        if [ $SECONDS -ge $until ]; then
            echo "$2 is not ready after $1 s. The end of $state/log/$2.log:" >&2
            tail -n 20 "$state/log/$2.log" >&2
            return 1
        fi
        sleep 0.2
    done
}
