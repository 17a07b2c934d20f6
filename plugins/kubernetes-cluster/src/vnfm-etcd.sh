#!/bin/sh
# vnfm-etcd: snapshots of etcd on a control-plane node, encrypted with a passphrase; run as a step.
#   vnfm-etcd name                                a name for a new snapshot: the beginning of the CA's SHA-256, and the time
#   vnfm-etcd save NAME PASSPHRASE_FILE KEEP      takes the snapshot NAME, unless it exists, and keeps the last KEEP
#   vnfm-etcd list                                NAME, size in bytes and SHA-256 of each snapshot
#   vnfm-etcd unpack NAME PASSPHRASE_FILE MEMBER PEER_URL   makes NAME the data of a cluster of this one MEMBER, in DATA/vnfm-new;
#                                                 fails if the passphrase is another, or NAME not complete or not this cluster's
#   vnfm-etcd restore ID                          etcd has what was unpacked, once for each ID
#   vnfm-etcd copy                                a snapshot next to what `vnfm-kubernetes keep` has copied, unless there is one
#   vnfm-etcd back [applied]                      etcd and the API server have their copied manifests. If etcd's version was
#                                                 another, or the upgrade is `applied`, a cluster of one member also has the
#                                                 data of `copy`, which goes
#   vnfm-etcd stop POD                            stops `kube-apiserver` or `etcd` until a restore here, or until the host is reset
# etcdctl and etcdutl come from etcd's own image. What etcd had before a restore stays in DATA/vnfm-before. One member of several
# keeps its data: it may not forget what it has confirmed, and etcd's data stay old until all members have the new version.
set -eu
umask 077
snapshots=/var/lib/vnfm/etcd
copies=/var/lib/vnfm/kubernetes
manifests=/etc/kubernetes/manifests
stopped=/etc/kubernetes/vnfm-stopped
pki=/etc/kubernetes/pki/etcd
manifest=$manifests/etcd.yaml
[ -e "$manifest" ] || manifest=$stopped/etcd.yaml
mkdir -p "$snapshots"
from_manifest() { sed -n "s/^ *$1//p" "$manifest" | head -n 1; }

tool() {
  ctr -n k8s.io run --rm --net-host \
    --mount "type=bind,src=$pki,dst=$pki,options=rbind:ro" \
    --mount "type=bind,src=$data,dst=$data,options=rbind:rw" \
    --mount "type=bind,src=$snapshots,dst=$snapshots,options=rbind:rw" \
    "$(from_manifest 'image: *')" "vnfm-etcd-$$" "$@"
}
client() {
  tool etcdctl --endpoints=https://127.0.0.1:2379 --cacert="$pki/ca.crt" --cert="$pki/healthcheck-client.crt" \
    --key="$pki/healthcheck-client.key" "$@"
}
# new_data FILE MEMBER PEER_URL: the data of a cluster of one member, in DATA/vnfm-new. Watches begin anew with the greater revision.
new_data() {
  rm -rf "$data/vnfm-new"
  tool etcdutl snapshot restore "$1" --name "$2" --initial-cluster "$2=$3" --initial-cluster-token "vnfm-$(date +%s)" \
    --initial-advertise-peer-urls "$3" --data-dir "$data/vnfm-new" --bump-revision 1000000000 --mark-compacted
}
# replace_data ID: what is in DATA/vnfm-new takes the place of etcd's data, also after an interruption.
replace_data() {
  if [ ! -e "$data/vnfm-away-$1" ]; then
    [ ! -d "$data/member" ] || { rm -rf "$data/vnfm-before"; mv "$data/member" "$data/vnfm-before"; }
    touch "$data/vnfm-away-$1"
  fi
  [ -d "$data/member" ] || mv "$data/vnfm-new/member" "$data/member"
}
cipher() { openssl enc -aes-256-cbc -salt -pbkdf2 -iter 600000 -md sha256 "$@"; }
decrypt() {
  cipher -d -in "$snapshots/$1.db.enc" -pass "file:$2" || {
    echo "the passphrase is not that of the snapshot $1, or the file is damaged" >&2; exit 3; }
}
# What etcdctl saves ends with the SHA-256 of all that precedes it. A cluster's data contain its CA, as each namespace has it.
check() {
  length=$(($(wc -c <"$2") - 32))
  [ $length -gt 0 ] && [ "$(head -c $length "$2" | sha256sum | cut -c1-64)" = "$(tail -c 32 "$2" | od -An -v -tx1 | tr -d ' \n')" ] || {
    echo "the snapshot $1 is damaged: it was truncated or changed" >&2; exit 3; }
  grep -qaF "$(sed -n 2p /etc/kubernetes/pki/ca.crt)" "$2" || {
    echo "the snapshot $1 is that of a cluster with another CA" >&2; exit 5; }
}
differs() { ! cmp -s "$copies/manifests/$1.yaml" "$manifests/$1.yaml"; }
# stop_pod NAME: the API server before etcd, which its last requests need. Watches keep it from ending by itself: it is killed
# after 5 s, as the kubelet would after 30.
stop_pod() {
  mkdir -p "$stopped"; rm -f "$stopped/restarting"
  [ ! -e "$manifests/$1.yaml" ] || mv -f "$manifests/$1.yaml" "$stopped/$1.yaml"
  looks=0
  while pgrep -x "$1" >/dev/null; do
    looks=$((looks + 1)); [ $looks -lt 120 ] || { echo "$1 does not stop" >&2; exit 4; }
    [ "$1" != kube-apiserver ] || [ $looks -lt 5 ] || pkill -KILL -x "$1" || true
    sleep 1
  done
}

case ${1:-} in
name)
  echo "$(sha256sum /etc/kubernetes/pki/ca.crt | cut -c1-12)-$(date -u +%Y%m%dT%H%M%SZ)" ;;
save)
  name=$2 passphrase=$3 keep=$4 data=$(from_manifest '- --data-dir=')
  trap 'rm -f "$snapshots/new.db" "$snapshots/new.db.part" "$snapshots/new.enc"' EXIT
  if [ ! -e "$snapshots/$name.db.enc" ]; then
    rm -f "$snapshots/new.db"
    client snapshot save "$snapshots/new.db"
    cipher -in "$snapshots/new.db" -out "$snapshots/new.enc" -pass "file:$passphrase"
    mv -f "$snapshots/new.enc" "$snapshots/$name.db.enc"
  fi
  ls -1 "$snapshots" | grep '\.db\.enc$' | sort -r -t - -k 2 | tail -n "+$((keep + 1))" | while read -r old; do rm -f "$snapshots/$old"; done ;;
list)
  for file in "$snapshots"/*.db.enc; do
    [ -e "$file" ] || continue
    name=${file##*/}; echo "${name%.db.enc} $(wc -c <"$file") $(sha256sum "$file" | cut -d' ' -f1)"
  done ;;
unpack)
  name=$2 member=$4 peer=$5 data=$(from_manifest '- --data-dir=')
  trap 'rm -f "$snapshots/old.db"' EXIT
  decrypt "$name" "$3" >"$snapshots/old.db"
  check "$name" "$snapshots/old.db"
  new_data "$snapshots/old.db" "$member" "$peer" ;;
restore)
  id=$2 data=$(from_manifest '- --data-dir=')
  if [ ! -e "$data/vnfm-restored-$id" ]; then
    stop_pod kube-apiserver; stop_pod etcd
    replace_data "$id"
    rm -f "$data"/vnfm-restored-*; touch "$data/vnfm-restored-$id"
  fi
  rm -rf "$data/vnfm-new" "$data"/vnfm-away-*
  for pod in etcd kube-apiserver; do
    [ ! -e "$stopped/$pod.yaml" ] || mv -f "$stopped/$pod.yaml" "$manifests/$pod.yaml"
  done ;;
copy)
  [ -e "$manifest" ] && [ ! -e "$copies/etcd.db" ] || exit 0
  snapshots=$copies data=$(from_manifest '- --data-dir=')
  rm -f "$copies"/new.db*
  client member list >"$copies/members"
  client snapshot save "$copies/new.db"
  mv -f "$copies/new.db" "$copies/etcd.db" ;;
back)
  [ -e "$copies/etcd.db" ] || exit 0
  is=$(from_manifest 'image: *')
  manifest=$copies/manifests/etcd.yaml
  snapshots=$copies data=$(from_manifest '- --data-dir=') with_data=
  [ "$(wc -l <"$copies/members")" != 1 ] || { [ "$is" = "$(from_manifest 'image: *')" ] && [ "${2:-}" != applied ]; } || with_data=yes
  [ -z "$with_data" ] || [ -e "$copies/data-is-back" ] || \
    new_data "$copies/etcd.db" "$(from_manifest '- --name=')" "$(from_manifest '- --initial-advertise-peer-urls=')"
  for pod in kube-apiserver etcd; do
    if [ -n "$with_data" ] || differs $pod; then stop_pod $pod; fi
  done
  if [ -n "$with_data" ] && [ ! -e "$copies/data-is-back" ]; then
    replace_data upgrade
    touch "$copies/data-is-back"
  fi
  for pod in etcd kube-apiserver; do
    if differs $pod; then
      cp -a "$copies/manifests/$pod.yaml" "/etc/kubernetes/vnfm-$pod.yaml"
      mv -f "/etc/kubernetes/vnfm-$pod.yaml" "$manifests/$pod.yaml"
    fi
    rm -f "$stopped/$pod.yaml"
  done
  rm -rf "$data/vnfm-new" "$data/vnfm-away-upgrade"
  rm -f "$copies/etcd.db" "$copies/members" "$copies/data-is-back" ;;
stop)
  stop_pod "$2" ;;
*)
  echo "usage: vnfm-etcd name|save|list|unpack|restore|copy|back|stop …" >&2; exit 2 ;;
esac
