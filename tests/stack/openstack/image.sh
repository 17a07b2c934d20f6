#!/bin/bash
# Builds a small Debian 12 VM image for up.sh in libvirt mode: DIR/{disk.qcow2,vmlinuz,initrd,key,key.pub}.
# No boot loader: Glance carries kernel and initrd as separate images (kernel_id / ramdisk_id / os_command_line).
# Login: root with DIR/key or the password nfvtest. Needs about 2 minutes and 1.5 GB while it works.
set -euo pipefail
DIR=${1:-/var/cache/vnfm/vm-image}; SIZE=${2:-900M}; EXTRA=${3:-}
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
[ -f "$DIR/disk.qcow2" ] && { echo "$DIR/disk.qcow2 is there"; exit 0; }
command -v mmdebstrap >/dev/null || apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends mmdebstrap arch-test e2fsprogs
mkdir -p "$DIR"; W=$(mktemp -d "$DIR/work.XXXX"); trap 'rm -rf "$W"' EXIT
nice mmdebstrap --quiet --variant=minbase \
  --include="systemd-sysv,udev,ifupdown,isc-dhcp-client,iproute2,iputils-ping,openssh-server,linux-image-cloud-amd64,sudo,ca-certificates,curl,procps,kmod,netbase,e2fsprogs$EXTRA" \
  --aptopt='Acquire::Languages "none"' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$W/root.tar"   # no mirror named: mmdebstrap takes its default
mkdir "$W/root"; tar -C "$W/root" -xf "$W/root.tar"; rm "$W/root.tar"; R=$W/root
[ -f "$DIR/key" ] || ssh-keygen -q -t ed25519 -N '' -C nfvtest -f "$DIR/key"
install -d -m700 "$R/root/.ssh"; install -m600 "$DIR/key.pub" "$R/root/.ssh/authorized_keys"
echo 'root:nfvtest' | chroot "$R" chpasswd
printf 'PermitRootLogin yes\nPasswordAuthentication yes\nUseDNS no\n' >"$R/etc/ssh/sshd_config.d/10-nfv.conf"
printf 'auto lo\niface lo inet loopback\nallow-hotplug eth0\niface eth0 inet dhcp\n' >"$R/etc/network/interfaces"
echo nfv-vm >"$R/etc/hostname"; echo '/dev/vda / ext4 defaults 0 1' >"$R/etc/fstab"
# the disk is as big as the flavor says: grow the file system to it at every boot
cat >"$R/etc/systemd/system/nfv-grow.service" <<X
[Unit]
Description=Grow / to the size of the disk
[Service]
Type=oneshot
ExecStart=/sbin/resize2fs /dev/vda
[Install]
WantedBy=multi-user.target
X
ln -s ../nfv-grow.service "$R/etc/systemd/system/multi-user.target.wants/nfv-grow.service"
cp "$R"/boot/vmlinuz-* "$DIR/vmlinuz"; cp "$R"/boot/initrd.img-* "$DIR/initrd"
mke2fs -q -t ext4 -L root -d "$R" "$W/disk.raw" "$SIZE"
qemu-img convert -O qcow2 "$W/disk.raw" "$DIR/disk.qcow2.tmp"; mv "$DIR/disk.qcow2.tmp" "$DIR/disk.qcow2"
ls -l "$DIR"
