#!/bin/sh
# vnfm-kubernetes: what upgrades and renewals do with the files of Kubernetes on their host.
#   vnfm-kubernetes versions      what is installed, and what the control plane's manifests name, as name=value lines
#   vnfm-kubernetes keep          copies programs, settings and manifests, unless a copy exists
#   vnfm-kubernetes programs      puts the copied programs and settings back, and restarts the kubelet
#   vnfm-kubernetes manifests     puts the copied manifests back, except that of an etcd which has another version meanwhile
#   vnfm-kubernetes drop          deletes the copies
#   vnfm-kubernetes components    the static pods of the control plane
#   vnfm-kubernetes restarted ID  those whose manifests have the label vnfm.dev/restarted=ID
#   vnfm-kubernetes restart ID NAME…   these static pods get that label, and the kubelet restarts them; run as a step
#   vnfm-kubernetes renew ID NAME…     renews the certificates, then as `restart`; run as a step
#   vnfm-kubernetes resume        starts what a `restart` that was interrupted has stopped
# An API server whose etcd restarts answers nobody, and clients wait. So it stops before etcd, while clients are refused and go to
# another node, and starts once etcd answers. Watches keep it from ending by itself: it is killed after 5 s, as the kubelet would
# after 30.
set -eu
umask 077
copies=/var/lib/vnfm/kubernetes
manifests=/etc/kubernetes/manifests
stopped=/etc/kubernetes/vnfm-stopped
settings="config.yaml kubeadm-flags.env instance-config.yaml"
# A file never has half of its content: the kubelet would read it.
place() { cp -a "$1" "$2.vnfm"; mv -f "$2.vnfm" "$2"; }
image() { sed -n 's/^ *image: *//p' "$1" | head -n 1; }
place_manifest() { cp -a "$1" "/etc/kubernetes/vnfm-$2"; mv -f "/etc/kubernetes/vnfm-$2" "$manifests/$2"; }
# `restart` has moved manifests away, and was interrupted; those that `vnfm-etcd stop` has moved stay there.
is_restarting() { [ -e "$stopped/restarting" ]; }
manifest_of() { if [ ! -e "$manifests/$1.yaml" ] && is_restarting; then echo "$stopped/$1.yaml"; else echo "$manifests/$1.yaml"; fi; }
has_label() { grep -qs "^    vnfm\.dev/restarted: \"$1\"\$" "$manifests/$2.yaml"; }
labelled=/etc/kubernetes/vnfm-restart
# label ID NAME: its manifest with the label, in a file of its own.
label() {
  from=$(manifest_of "$2")
  sed -e '/^    vnfm\.dev\/restarted:/d' -e "s/^  labels:\$/&\n    vnfm.dev\/restarted: \"$1\"/" "$from" >"$labelled"
  grep -q '^    vnfm\.dev/restarted:' "$labelled" || { echo "$from has no labels to add one to" >&2; exit 3; }
}
# wait_for SECONDS COMMAND…: until it succeeds; fails after this time.
wait_for() { left=$1; shift; until "$@" >/dev/null 2>&1; do [ "$left" -gt 0 ] || return 1; left=$((left - 1)); sleep 1; done; }
has_ended() { ! kill -0 "$1"; }
etcd_answers() {
  url=$(sed -n 's/^ *- --listen-metrics-urls=\([^,]*\).*/\1/p' "$manifests/etcd.yaml")
  [ -z "$url" ] || kubectl --kubeconfig=/dev/null --server="$url" --request-timeout=2s get --raw /health
}
api_answers() { kubectl --kubeconfig=/etc/kubernetes/kubelet.conf --request-timeout=2s get --raw /readyz; }
# stop NAME SECONDS: if it has not ended by then, it is killed.
stop() {
  [ -e "$manifests/$1.yaml" ] || return 0
  running=$(pgrep -o -x "$1" || true)
  mkdir -p "$stopped"; touch "$stopped/restarting"; mv -f "$manifests/$1.yaml" "$stopped/$1.yaml"
  [ -z "$running" ] || wait_for "$2" has_ended "$running" || kill -KILL "$running" 2>/dev/null || true
}
start() { [ ! -e "$stopped/$1.yaml" ] || mv -f "$stopped/$1.yaml" "$manifests/$1.yaml"; }
start_all() { ! is_restarting || { start etcd; start kube-apiserver; rm -f "$stopped/restarting"; }; }

if [ "${1:-}" = renew ]; then kubeadm certs renew all; shift; set -- restart "$@"; fi
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
  for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do [ ! -e "$(manifest_of "$name")" ] || echo "$name"; done ;;
restarted)
  for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do ! has_label "$2" "$name" || echo "$name"; done ;;
restart)
  id=$2 stops=; shift 2
  # All have labels, or nothing stops.
  for name in "$@"; do label "$id" "$name"; done
  trap start_all EXIT
  for name in "$@"; do
    case $name in
    etcd) has_label "$id" "$name" || stops="$name $stops" ;;
    kube-apiserver) has_label "$id" "$name" || stops="$stops $name" ;;
    *) has_label "$id" "$name" || { label "$id" "$name"; mv -f "$labelled" "$manifests/$name.yaml"; } ;;
    esac
  done
  case $stops in *kube-apiserver*) stop kube-apiserver 5 ;; esac
  case $stops in *etcd*) stop etcd 35 ;; esac
  # The kubelet has forgotten a pod two seconds after its end; if its manifest is back before, it starts ten seconds later.
  [ -z "$stops" ] || sleep 3
  for name in $stops; do
    label "$id" "$name"; mv -f "$labelled" "$stopped/$name.yaml"; start "$name"
    [ "$name" != etcd ] || wait_for 120 etcd_answers || { echo "etcd does not answer after its restart" >&2; exit 4; }
  done
  # The kubelet, which calls the API server of its node, would wait up to half a minute for its next attempt.
  case $stops in *kube-apiserver*) ! wait_for 60 api_answers || systemctl restart kubelet ;; esac
  rm -f "$labelled" ;;
resume)
  start_all ;;
*)
  echo "usage: vnfm-kubernetes versions|keep|programs|manifests|drop|components|restarted|restart|renew|resume …" >&2; exit 2 ;;
esac
