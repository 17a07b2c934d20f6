#!/bin/bash
# try.sh DEB   tries the Debian package under a systemd of its own: this machine's root in a container, above which every
# write goes to memory. Installs it, starts, reloads and kills the server, breaks the configuration, installs it over
# itself, removes and purges it; each is looked at. As root; needs the Debian package systemd-container. 20 s.
set -euo pipefail
[ $# = 1 ] && [ -f "$1" ] || { sed -n 2,4p "$0" >&2; exit 2; }
command -v systemd-nspawn >/dev/null || { echo "$0: apt-get install systemd-container" >&2; exit 1; }
place=$(mktemp -d)
clean() { umount "$place/root" 2>/dev/null || true; umount "$place" 2>/dev/null || true; rmdir "$place"; }
trap clean EXIT
mount -t tmpfs vnfm-try "$place"
mkdir "$place"/{above,work,root}
mount -t overlay vnfm-try -o "lowerdir=/,upperdir=$place/above,workdir=$place/work" "$place/root"
root=$place/root
rm -f "$root"/etc/systemd/system/*.wants/*
cp "$1" "$root/vnfm.deb"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../try.service "$root/etc/systemd/system/multi-user.target.wants/try.service"
cat > "$root/etc/systemd/system/try.service" <<'UNIT'
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash /steps.sh
ExecStopPost=/bin/systemctl poweroff --force
UNIT
cat > "$root/steps.sh" <<'STEPS'
exec > /told 2>&1
set -exuo pipefail
state() { [ "$(systemctl is-active vnfm)" = "$1" ]; }
restarted() { [ "$(systemctl show -p NRestarts --value vnfm)" = 1 ]; }
within() { for _ in $(seq 100); do "$@" && return; sleep 0.1; done; "$@"; }
dpkg -i /vnfm.deb
systemctl enable --now vnfm
state active
runuser -u vnfm -- vnfmctl plugin allow /usr/lib/vnfm/libkubernetes_cluster.so --dir /var/lib/vnfm/plugins
systemctl restart vnfm
curl -sf http://127.0.0.1:9890/readyz | grep '"ready":true'
vnfmctl --server http://127.0.0.1:9890 plugin list | grep kubernetes-cluster
systemctl reload vnfm
journalctl -u vnfm | grep 'the configuration was read again'
kill -9 "$(systemctl show -p MainPID --value vnfm)"
within restarted
within state active
echo 'wrong: 1' >> /etc/vnfm/vnfm.yaml
! systemctl restart vnfm
journalctl -u vnfm | grep 'has a mistake'
sed -i '$d' /etc/vnfm/vnfm.yaml
systemctl reset-failed vnfm
systemctl start vnfm
dpkg -i /vnfm.deb
state active
dpkg --remove vnfm
state inactive
[ -f /var/lib/vnfm/vnfm.db ] && [ -f /etc/vnfm/vnfm.yaml ]
dpkg --purge vnfm
[ ! -e /var/lib/vnfm ] && [ ! -e /etc/vnfm ] && ! id vnfm
: all is well
STEPS
timeout 120 systemd-nspawn --register=no --keep-unit --directory="$root" --private-network --boot < /dev/null > "$place/boot.log" 2>&1 || true
if grep -qx '+ : all is well' "$root/told"; then
  echo "installed, started, reloaded, killed, misconfigured, installed again, removed and purged: all is well"
else
  cat "$root/told" 2>/dev/null || tail -20 "$place/boot.log"
  echo "$0: the last step above did not go well" >&2
  exit 1
fi
