#!/bin/bash
# host-down.sh NAME [--purge]   pulls the plug of a host: every process of it is killed at once; its disk stays, so
# host-up.sh NAME boots it again. --purge: the disk goes too. Environment: VNFM_HOSTS (/var/tmp/vnfm-stack/hosts)
set -uo pipefail
N=${1:?NAME}; H=${VNFM_HOSTS:-/var/tmp/vnfm-stack/hosts}/$N
[ -s "$H/conf" ] || exit 0
# shellcheck source=/dev/null
. "$H/conf"
: "${CGROUP:?}" "${NETNS:?}" "${LINK-}" "${BRIDGE_NETNS-}"
procs() { find /sys/fs/cgroup/pids/"$CGROUP/$N" -name cgroup.procs -exec cat {} + 2>/dev/null; }
if [ -s "$H/pid" ]; then                           # PID 1 of the host takes its whole PID namespace along
  p=$(cat "$H/pid")
  if grep -q "/$CGROUP/$N\$" "/proc/$p/cgroup" 2>/dev/null; then kill -KILL "$p"; fi
fi
for i in $(seq 100); do
  l=$(procs); [ -n "$l" ] || break
  if [ "$i" -gt 20 ]; then for p in $l; do kill -KILL "$p" 2>/dev/null; done; fi
  sleep 0.05
done
rm -f "$H/pid"
for c in /sys/fs/cgroup/*/"$CGROUP/$N"; do [ ! -d "$c" ] || find "$c" -depth -type d -exec rmdir {} \; 2>/dev/null; done
for c in /sys/fs/cgroup/*/"$CGROUP"; do rmdir "$c" 2>/dev/null; done      # the last one puts out the light
if [ -e "/run/netns/$NETNS" ]; then
  if [ -n "$LINK" ]; then                          # a link that was lent goes back
    ip -n "$NETNS" link set eth0 down; ip -n "$NETNS" link set eth0 name "$LINK"; ip -n "$NETNS" link set "$LINK" netns $$
  fi 2>/dev/null
  [ -n "$LINK" ] || ip ${BRIDGE_NETNS:+-n "$BRIDGE_NETNS"} link del "h${NETNS#host-}" 2>/dev/null
  ip netns del "$NETNS"
fi
[ "${2:-}" != --purge ] || rm -rf --one-file-system "$H"
exit 0
