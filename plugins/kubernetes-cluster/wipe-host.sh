#!/bin/sh
# wipe-host.sh [--images]   removes what a VNF with a Kubernetes cluster has left on a bare host
# For `wipeCommand` of an inventory. Runs as root, and again after an interruption. It fails rather than leave something.
#
#   removed   the node, its pods, etcd and their data; volumes of the add-on local-path; settings, logins and snapshots that the plugin
#             kubernetes-cluster wrote; rules and interfaces of the cluster's network; with --images all images of the container
#             runtime, also those that were there before
#   kept      the lease; the operating system, its packages and its network; what `node_software` has installed elsewhere
set -eu
# What is mounted below a folder is not the host's: it must not be emptied.
remove() { rm -rf --one-file-system "$@"; }

systemctl disable --now keepalived haproxy 2>/dev/null || true
if command -v kubeadm >/dev/null; then kubeadm reset --force; fi
remove /etc/kubernetes /etc/cni/net.d /var/lib/etcd /var/lib/cni /var/lib/kubelet /root/.kube
remove /opt/local-path-provisioner /var/log/pods /var/log/containers
remove /etc/haproxy/haproxy.cfg /etc/keepalived/keepalived.conf /etc/keepalived/haproxy-runs

# With its lock; both may be elsewhere (`leaseDirectory`).
[ ! -d /var/lib/vnfm ] || find /var/lib/vnfm -mindepth 1 -maxdepth 1 ! -name 'lease*' -exec rm -rf {} +
remove /run/vnfm /etc/sysctl.d/90-vnfm.conf /etc/apt/apt.conf.d/90-vnfm-proxy /etc/containerd/certs.d
for unit in containerd kubelet; do remove "/etc/systemd/system/$unit.service.d/90-vnfm-proxy.conf"; done

# kubeadm leaves the rules of kube-proxy and of network plugins.
for tables in iptables ip6tables; do
  command -v "$tables-save" >/dev/null || continue
  rules=$("$tables-save" | grep -v -e KUBE- -e CNI- || true)
  [ -z "$rules" ] || printf '%s\n' "$rules" | "$tables-restore"
done
if command -v ipvsadm >/dev/null; then ipvsadm --clear; fi
for link in cni0 flannel.1 kube-ipvs0; do ip link delete "$link" 2>/dev/null || true; done

if [ "${1:-}" = --images ]; then
  for image in $(ctr -n k8s.io images ls -q); do ctr -n k8s.io images rm "$image" >/dev/null; done
fi
systemctl daemon-reload
systemctl restart containerd
