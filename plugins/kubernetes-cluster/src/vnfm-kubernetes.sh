#!/bin/sh
# vnfm-kubernetes: what upgrades and renewals do with the files of Kubernetes on their host.
#   vnfm-kubernetes versions      what is installed, and what the control plane's manifests name, as name=value lines
#   vnfm-kubernetes keep          copies programs, settings and manifests, unless a copy exists
#   vnfm-kubernetes programs      puts the copied programs and settings back, and restarts the kubelet
#   vnfm-kubernetes manifests     puts the copied manifests back, except that of an etcd which has another version meanwhile
#   vnfm-kubernetes drop          deletes the copies
#   vnfm-kubernetes components    the static pods of the control plane, in the order in which they are restarted
#   vnfm-kubernetes restart NAME ID   the static pod NAME gets the label vnfm.dev/restarted=ID, and the kubelet restarts it
# Watches keep an API server from ending by itself, and the kubelet kills it after 30 s. Until then it answers nobody, because its
# etcd restarts as well, and the kubelet, which calls the API server of its node, starts nothing. So it is the last to restart,
# and gets 5 s for the requests that it has.
set -eu
umask 077
copies=/var/lib/vnfm/kubernetes
manifests=/etc/kubernetes/manifests
settings="config.yaml kubeadm-flags.env instance-config.yaml"
# A file never has half of its content: the kubelet would read it.
place() { cp -a "$1" "$2.vnfm"; mv -f "$2.vnfm" "$2"; }
image() { sed -n 's/^ *image: *//p' "$1" | head -n 1; }
place_manifest() { cp -a "$1" "/etc/kubernetes/vnfm-$2"; mv -f "/etc/kubernetes/vnfm-$2" "$manifests/$2"; }

case ${1:-} in
versions)
  echo "kubeadm=$(kubeadm version -o short 2>/dev/null || true)"
  echo "kubelet=$(kubelet --version 2>/dev/null | sed 's/.* //' || true)"
  for name in kube-apiserver kube-controller-manager kube-scheduler; do
    [ ! -e "$manifests/$name.yaml" ] || \
      echo "$name=$(sed -n 's/^ *image: .*:\(v[0-9][^ @]*\).*$/\1/p' "$manifests/$name.yaml" | head -n 1)"
  done ;;
keep)
  [ ! -e "$copies/complete" ] || exit 0
  rm -rf "$copies"; mkdir -p "$copies/programs" "$copies/settings"
  for program in kubeadm kubelet kubectl; do
    path=$(command -v "$program"); echo "$program $path" >>"$copies/paths"
    cp -a "$path" "$copies/programs/$program"
  done
  for name in $settings; do
    [ ! -e "/var/lib/kubelet/$name" ] || cp -a "/var/lib/kubelet/$name" "$copies/settings/$name"
  done
  [ ! -d "$manifests" ] || cp -a "$manifests" "$copies/manifests"
  touch "$copies/complete" ;;
programs)
  [ -e "$copies/complete" ] || exit 0
  while read -r program path; do place "$copies/programs/$program" "$path"; done <"$copies/paths"
  for name in $settings; do
    [ ! -e "$copies/settings/$name" ] || place "$copies/settings/$name" "/var/lib/kubelet/$name"
  done
  systemctl daemon-reload; systemctl restart kubelet ;;
manifests)
  [ -e "$copies/complete" ] || exit 0
  for file in "$copies"/manifests/*.yaml; do
    name=${file##*/}
    # An older etcd refuses the data of a newer one. Where it does not, `vnfm-etcd back` has put its manifest back.
    if [ "$name" = etcd.yaml ] && [ -e "$manifests/$name" ] && [ "$(image "$file")" != "$(image "$manifests/$name")" ]; then
      continue
    fi
    cmp -s "$file" "$manifests/$name" || place_manifest "$file" "$name"
  done ;;
drop)
  rm -rf "$copies" ;;
components)
  for name in etcd kube-controller-manager kube-scheduler kube-apiserver; do
    [ ! -e "$manifests/$name.yaml" ] || echo "$name"
  done ;;
restart)
  new=/etc/kubernetes/vnfm-restart-$2
  sed -e '/^    vnfm\.dev\/restarted:/d' -e "s/^  labels:\$/&\\n    vnfm.dev\\/restarted: \"$3\"/" "$manifests/$2.yaml" >"$new"
  grep -q '^    vnfm\.dev/restarted:' "$new" || { echo "$manifests/$2.yaml has no labels to add one to" >&2; exit 3; }
  ! cmp -s "$new" "$manifests/$2.yaml" || { rm -f "$new"; exit 0; }
  running=$(pgrep -o -x "$2" || true)
  mv -f "$new" "$manifests/$2.yaml"
  [ "$2" = kube-apiserver ] && [ -n "$running" ] || exit 0
  looks=0
  while kill -0 "$running" 2>/dev/null && [ $looks -lt 5 ]; do looks=$((looks + 1)); sleep 1; done
  kill -KILL "$running" 2>/dev/null || true ;;
*)
  echo "usage: vnfm-kubernetes versions|keep|programs|manifests|drop|components|restart …" >&2; exit 2 ;;
esac
