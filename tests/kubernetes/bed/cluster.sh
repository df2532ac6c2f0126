# Paths of the one-node cluster, and functions that check if it is up; to be sourced. There is one cluster per clone.
bed=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$bed/../../.." && pwd)
cluster=$root/target/cluster
# File with the first process, which ends all others when it ends: its pid, and its start time because pids are reused.
anchor=$cluster/anchor
# Name of the cluster's cgroup in each hierarchy; it depends on the clone, because several clones may have a cluster.
cgroup=weir-$(cksum <<<"$root" | cut -d' ' -f1)

started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; } # started PID: prints the start time in ticks since boot

is_alive() {
    local pid since
    [ -f "$anchor" ] && read -r pid since <"$anchor" && [ "$(started "$pid")" = "$since" ]
}

hierarchies() { # Prints one hierarchy with cgroup v2, one per controller with v1.
    local folder
    for folder in /sys/fs/cgroup /sys/fs/cgroup/*; do
        if [ -f "$folder/cgroup.procs" ] && [ ! -L "$folder" ]; then echo "$folder"; fi
        [ ! -f /sys/fs/cgroup/cgroup.controllers ] || return 0
    done
}

one_at_a_time() { # Holds a lock that is released when this script ends; the lock is on a folder, so no lock file is left.
    mkdir -p "$root/target"
    exec {lock}<"$root/target"
    flock "$lock"
}
