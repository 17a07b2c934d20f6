#!/bin/bash
# host-up.sh NAME [ADDRESS/LEN]   powers a test host ("VM") on; ADDRESS/LEN is needed the first time. Prints nothing but
# problems; returns when sshd answers. The settings below are saved at the first start and taken from there later.
#   VNFM_HOSTS         folder of all hosts (/var/tmp/vnfm-stack/hosts); the host lives in $VNFM_HOSTS/NAME:
#                      disk/ overlay/ (its file system), keys/ + known_hosts (its SSH host keys), conf, pid, console.log
#   HOST_BIN           folder with kubelet kubeadm kubectl and perhaps containerd (bound read-only; required)
#   HOST_IMAGES        folder with image tars, which containerd has at the first start (bound read-only; optional)
#   HOST_USERS         "NAME:PASSWORD[:MODE] ..." MODE nopasswd (sudo without asking), sudo (sudo asks), none. root:PW too.
#                      (default "root: debian::nopasswd"; an empty password means: by key only)
#   HOST_KEYS          authorized_keys file for all of them (optional)
#   HOST_BRIDGE        bridge to plug into (br0), in the network namespace HOST_BRIDGE_NETNS (vnfm-lan; when HOST_BRIDGE
#                      is given: the caller's)
#   HOST_LINK          instead of a bridge: an interface of the caller's namespace, moved into the host as its eth0
#   HOST_GATEWAY       default route (10.77.0.254; "none")     HOST_MAC, HOST_MTU (optional)
#   HOST_USER_DATA     file starting with #!, run by root at the first start, before sshd (optional)
#   HOST_CGROUP        parent control group (vnfm-hosts)        HOST_WAIT seconds to wait for sshd (60)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
N=${1:?NAME}; ROOT=${VNFM_HOSTS:-/var/tmp/vnfm-stack/hosts}; H=$ROOT/$N
[[ $N =~ ^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$ ]] || { echo "bad host name $N" >&2; exit 2; }
mkdir -p "$H"; chmod 711 "$ROOT" "$H"; H=$(cd "$H" && pwd)
if [ ! -s "$H/conf" ]; then
  A=${2:?ADDRESS/LEN}; [ -z "${HOST_BRIDGE:-}" ] || HOST_BRIDGE_NETNS=${HOST_BRIDGE_NETNS:-}
  B=$(cd "${HOST_BIN:?}" && pwd); I=${HOST_IMAGES:+$(cd "$HOST_IMAGES" && pwd)}
  for f in kubelet kubeadm kubectl; do [ -x "$B/$f" ] || { echo "no $B/$f" >&2; exit 2; }; done
  C=$B/containerd; [ -x "$C" ] || C=$(type -P containerd)
  M=${I:+$("$here/imported.sh" "$I" "$ROOT/.imported" "$C")}
  if [ -n "${HOST_KEYS:-}" ]; then cp "$HOST_KEYS" "$H/authorized"; fi
  if [ -n "${HOST_USER_DATA:-}" ]; then cp "$HOST_USER_DATA" "$H/user_data"; fi
  umask 077
  { printf '%s=%q\n' ADDRESS "$A" BIN "$B" IMAGES "$I" IMPORTED "$M" USERS "${HOST_USERS-root: debian::nopasswd}" \
      BRIDGE "${HOST_BRIDGE:-br0}" BRIDGE_NETNS "${HOST_BRIDGE_NETNS-vnfm-lan}" LINK "${HOST_LINK:-}" \
      GATEWAY "${HOST_GATEWAY:-10.77.0.254}" MAC "${HOST_MAC:-}" MTU "${HOST_MTU:-}" CGROUP "${HOST_CGROUP:-vnfm-hosts}" \
      NETNS "host-$(printf %s "$H" | sha256sum | cut -c1-10)"; } >"$H/conf.new"
  mkdir -p "$H/keys"
  for t in ed25519 ecdsa; do [ -s "$H/keys/ssh_host_${t}_key" ] || ssh-keygen -q -t $t -N '' -C "$N" -f "$H/keys/ssh_host_${t}_key"; done
  for t in ed25519 ecdsa; do echo "${A%/*} $(cut -d' ' -f1,2 "$H/keys/ssh_host_${t}_key.pub")"; done >"$H/known_hosts"
  mv "$H/conf.new" "$H/conf"; umask 022
fi
# shellcheck source=/dev/null
. "$H/conf"
: "$BIN" "$IMAGES" "$IMPORTED" "$USERS" "$GATEWAY"   # used by init
[ -d /sys/fs/cgroup/memory ] || { echo "only cgroup v1 is catered for" >&2; exit 2; }
alive() { [ -s "$H/pid" ] && grep -q "/$CGROUP/$N\$" "/proc/$(cat "$H/pid")/cgroup" 2>/dev/null; }
if alive; then echo "host $N is up already" >&2; exit 0; fi
"$here/host-down.sh" "$N"                          # what a crash may have left

# the network: a veth into the bridge, or a given link; eth0 in the host
ip netns add "$NETNS"
if [ -z "$LINK" ]; then
  V=h${NETNS#host-}; BR=(); [ -z "$BRIDGE_NETNS" ] || BR=(netns "$BRIDGE_NETNS")
  ip link add "$V" "${BR[@]}" type veth peer name eth0 netns "$NETNS"
  ip ${BRIDGE_NETNS:+-n "$BRIDGE_NETNS"} link set "$V" master "$BRIDGE" up
  [ -z "$MTU" ] || ip ${BRIDGE_NETNS:+-n "$BRIDGE_NETNS"} link set "$V" mtu "$MTU"
else
  ip link set "$LINK" netns "$NETNS"; ip -n "$NETNS" link set "$LINK" down; ip -n "$NETNS" link set "$LINK" name eth0
fi
n() { ip -n "$NETNS" "$@"; }
n link set lo up
[ -z "$MAC" ] || n link set eth0 address "$MAC"
[ -z "$MTU" ] || n link set eth0 mtu "$MTU"
n addr add "$ADDRESS" dev eth0; n link set eth0 up
[ "$GATEWAY" = none ] || n route add default via "$GATEWAY"

# the control groups, and into them
for c in /sys/fs/cgroup/*/; do c=${c%/}; mountpoint -q "$c" || continue
  for d in "$c/$CGROUP" "$c/$CGROUP/$N"; do
    mkdir -p "$d"
    [ "${c##*/}" != cpuset ] || for f in cpus mems; do [ -n "$(cat "$d/cpuset.$f")" ] || cat "$(dirname "$d")/cpuset.$f" >"$d/cpuset.$f"; done
  done
done
rm -f "$H/pid"
(
  for c in /sys/fs/cgroup/*/"$CGROUP/$N"; do echo "$BASHPID" >"$c/cgroup.procs"; done
  cd /
  exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    setsid nsenter --net="/run/netns/$NETNS" unshare -m -u -i -p -C -f --kill-child --propagation private \
    bash "$here/init" "$N" "$H" >"$H/console.log" 2>&1 </dev/null
) &
for _ in $(seq $((${HOST_WAIT:-60} * 10))); do
  if [ -s "$H/pid" ]; then
    alive || break
    if nsenter --net="/run/netns/$NETNS" bash -c "exec 3<>/dev/tcp/${ADDRESS%/*}/22" 2>/dev/null; then exit 0; fi
  fi
  sleep 0.1
done
echo "host $N did not come up:" >&2; tail -n 20 "$H/console.log" >&2; exit 1
