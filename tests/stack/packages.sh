#!/bin/bash
# packages.sh list GROUP...      names the Debian packages of these groups
# packages.sh missing GROUP...   names those of them that are not installed (nothing: all there)
# packages.sh install GROUP...   installs what is missing; needs root; no daemon is started by it
# GROUP: openstack | octavia | barbican | cinder | libvirt | hosts | kubernetes | judges | registry | ci, or `package:NAME` for one by name.
# Environment: PACKAGES_LOG (file for apt's words; default: a temporary one that stays when apt fails), PACKAGES_GUARD
# (what forbids daemons to start: /usr/sbin/policy-rc.d, that Debian's maintainer scripts ask)
set -euo pipefail
guard=${PACKAGES_GUARD:-/usr/sbin/policy-rc.d}
export LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
group() {
  case $1 in
    openstack) echo "python3-keystone python3-glance python3-placement python3-nova python3-neutron python3-heat
      python3-heatclient uwsgi-core uwsgi-plugin-python3 mariadb-server-core mariadb-client-core rabbitmq-server
      iproute2 curl";;
    octavia) echo "python3-octavia python3-octaviaclient";;
    barbican) echo "python3-barbican";;
    cinder) echo "python3-cinder";;
    libvirt) echo "libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients python3-libvirt qemu-system-x86 qemu-utils
      dnsmasq-base ipset iptables ebtables conntrack genisoimage";;
    hosts) echo "openssh-server openssh-client containerd runc containernetworking-plugins iptables iproute2 socat
      conntrack ethtool busybox-static sudo kmod procps util-linux ansible-core haproxy keepalived ipmitool
      python3-pyghmi python3-ironic";;
    kubernetes) echo "openssl curl";;
    judges) echo "nginx-light python3-venv python3-openstackclient python3-tackerclient";;
    registry) echo "docker-registry skopeo apache2-utils openssl";;
    ci) echo "gcc libc6-dev make cmake pkg-config git ca-certificates curl openssh-server openssl";;
    package:*) echo "${1#package:}";;
    *) echo "packages.sh: no group \`$1\`" >&2; exit 2;;
  esac
}
list() { local g; for g in "$@"; do group "$g"; done | tr -s ' \n' '\n' | sed '/^$/d' | sort -u; }
missing() {
  local p; for p in $(list "$@"); do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || echo "$p"
  done
}
install() {
  local miss log
  miss=$(missing "$@"); [ -n "$miss" ] || return 0
  [ "$(id -u)" = 0 ] || { echo "packages.sh: installing needs root: apt-get install --no-install-recommends" $miss >&2; exit 1; }
  log=${PACKAGES_LOG:-$(mktemp /tmp/vnfm-packages.XXXXXX)}
  echo "installing $(wc -w <<<"$miss") Debian packages and what they need" >&2
  # no maintainer script may start a daemon of its own
  if [ ! -e "$guard" ]; then
    trap 'rm -f "$guard"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$guard"; chmod 755 "$guard"
  fi
  export DEBIAN_FRONTEND=noninteractive
  local apt="apt-get -q -y -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-unsafe-io"
  $apt update >"$log" 2>&1 || true                     # a stale list may still do; install says so if not
  # shellcheck disable=SC2086
  if ! $apt install --no-install-recommends $miss >>"$log" 2>&1; then
    tail -n 8 "$log" >&2; echo "packages.sh: apt-get failed, see $log" >&2; exit 1
  fi
  [ -n "${PACKAGES_LOG:-}" ] || rm -f "$log"
}
verb=${1:?list|missing|install}; shift
case $verb in list|missing|install) "$verb" "$@";; *) echo "packages.sh: no verb \`$verb\`" >&2; exit 2;; esac
