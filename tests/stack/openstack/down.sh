#!/bin/bash
# Ends every process that up.sh started (by recorded pid + start time, with
# the members of the session it leads) and removes $OPENSTACK_HOME. --keep: only stop.
set -u
HOME_DIR=${OPENSTACK_HOME:-/var/tmp/vnfm-stack/openstack}
RUN=$HOME_DIR/run
[ -d "$RUN" ] || { echo "nothing at $HOME_DIR"; exit 0; }
start_time() { awk '{sub(/^.*\) /,""); print $20}' "/proc/$1/stat" 2>/dev/null; }
members() { # every process of session $1
  local f; for f in /proc/[0-9]*/stat; do
    awk -v s="$1" '{p=$1; sub(/^.*\) /,""); if ($4==s) print p}' "$f" 2>/dev/null; done; }
stop() { # name
  local f=$RUN/$1.pid pid st all p n=0
  [ -f "$f" ] || return 0
  read -r pid st <"$f"
  all=$(members "$pid")
  # the leader must still be the process that was started, or be gone (its session stays ours)
  if [ -d "/proc/$pid" ] && [ "$(start_time "$pid")" != "$st" ]; then all=""; fi
  [ -n "$all" ] && kill -TERM $all 2>/dev/null
  live() { local q; for q in $all; do awk '/^State/ && $2 != "Z" {print 1}' "/proc/$q/status" 2>/dev/null; done; }
  while [ -n "$(live)" ]; do
    n=$((n+1)); [ $n -gt 40 ] && { kill -KILL $all 2>/dev/null; break; }
    sleep 0.1
  done
  rm -f "$f"
}
NAMES=$(cd "$RUN" && ls *.pid 2>/dev/null | sed 's/\.pid$//')
stop hypervisor
[ -x "$HOME_DIR/bin/hypervisor-down.sh" ] && "$HOME_DIR/bin/hypervisor-down.sh"     # the hosts it made
[ -x "$HOME_DIR/bin/host-down.sh" ] && "$HOME_DIR/bin/host-down.sh" before
for n in $NAMES; do case $n in mysql|rabbitmq|epmd) ;; *) stop "$n" & ;; esac; done; wait
for n in rabbitmq mysql; do stop $n & done; wait
stop epmd
[ -x "$HOME_DIR/bin/host-down.sh" ] && "$HOME_DIR/bin/host-down.sh" after
[ "${1:-}" = --keep ] || rm -rf "$HOME_DIR"
echo "stopped $(echo $NAMES | wc -w) daemons of $HOME_DIR"
