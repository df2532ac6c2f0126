# Where the one-node cluster lies, and whether it is up; to be sourced. One cluster per clone.
bed=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$bed/../../.." && pwd)
cluster=$root/target/cluster
# Its first process, whose end is the end of all others: pid and start time, for pids are used again.
anchor=$cluster/anchor
# Its cgroup in each hierarchy; by the clone, as several may have one.
cgroup=weir-$(cksum <<<"$root" | cut -d' ' -f1)

started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; } # started PID: when, in ticks since boot

is_alive() {
    local pid since
    [ -f "$anchor" ] && read -r pid since <"$anchor" && [ "$(started "$pid")" = "$since" ]
}

hierarchies() { # One with cgroup v2, one per controller with v1.
    local folder
    for folder in /sys/fs/cgroup /sys/fs/cgroup/*; do
        if [ -f "$folder/cgroup.procs" ] && [ ! -L "$folder" ]; then echo "$folder"; fi
        [ ! -f /sys/fs/cgroup/cgroup.controllers ] || return 0
    done
}

one_at_a_time() { # Holds what is released when this script ends, and is no file of its own.
    mkdir -p "$root/target"
    exec {lock}<"$root/target"
    flock "$lock"
}
