#!/bin/sh
# vnfm-ca: rotates the CAs of Kubernetes, of etcd and of the front proxy on their host; each command can be repeated.
#   vnfm-ca create          makes the new CAs, unless there are any: keys, certificates, and one for Kubernetes' CA by the old CA
#   vnfm-ca export          prints the new CAs, with their keys, as one line
#   vnfm-ca import FILE     takes them on another control-plane node
#   vnfm-ca certificate     prints the certificate of the new CA of Kubernetes
#   vnfm-ca trust FILE      the node also trusts the CA whose certificate is in FILE; a control-plane node the other new CAs, too
#   vnfm-ca sign            the control-plane node signs with the new CAs, and its own certificates are by them
#   vnfm-ca kubelet NODE    the kubelet has a client certificate by the new CA
#   vnfm-ca keep old|new    the node trusts these CAs alone
#   vnfm-ca publish         joining nodes trust the CA of this control-plane node
# `ca.crt` has the CA that signs first: kubeadm reads the first certificate alone, and API server and kubelet read all of
# them. The controller manager accepts just one to sign with, so that it gets a file of its own in the meantime. etcd reads
# which CAs to trust when it starts.
set -eu
umask 077
pki=/etc/kubernetes/pki
new=$pki/vnfm-ca
signing=$pki/vnfm-signing-ca.crt
manager=/etc/kubernetes/manifests/kube-controller-manager.yaml
kubelet=/etc/kubernetes/kubelet.conf
client=/var/lib/kubelet/pki/kubelet-client-current.pem
# The CAs that only control-plane nodes have; one without a key here is another party's, and stays.
others="etcd/ca front-proxy-ca"
name_of() { echo "$1" | tr / -; }
admin="kubectl --kubeconfig=/etc/kubernetes/admin.conf"
temporary=/etc/kubernetes/vnfm-temporary
# Puts the temporary file in its place, with this mode: a file never has half of its content, because others read it.
place() { chmod "$2" "$temporary"; mv -f "$temporary" "$1"; }
# make_ca NAME SUBJECT
make_ca() {
  openssl genrsa -out "$new/$1.key" 2048 2>/dev/null
  # Its name is another one than the old CA's, so that nobody confuses the two.
  openssl req -new -key "$new/$1.key" -subj "/CN=$2-$(date -u +%Y%m%d%H%M%S)" -out "$new/request"
  openssl x509 -req -in "$new/request" -signkey "$new/$1.key" -sha256 -days 3650 -extfile "$new/extensions" -extensions ca -out "$new/$1.crt" 2>/dev/null
}
# also_trust CERTIFICATE FILE
also_trust() { grep -qxF "$(sed -n 2p "$1")" "$2" || { cat "$2" "$1" >"$temporary"; place "$2" 644; }; }
keep_first() { [ -e "$2" ] || { openssl x509 -in "$1" >"$temporary"; place "$2" 644; }; }
set_ca() { sed "s|certificate-authority-data: .*|certificate-authority-data: $(base64 -w 0 "$2")|" "$1"; }
sign_with() {
  [ -e "$manager" ] || return 0
  sed "s|--cluster-signing-cert-file=.*|--cluster-signing-cert-file=$1|" "$manager" >"$temporary"
  cmp -s "$temporary" "$manager" || place "$manager" 600
}
# The kubelet trusts what is in ca.crt.
update_kubelet() {
  set_ca "$kubelet" "$pki/ca.crt" >"$temporary"
  cmp -s "$temporary" "$kubelet" || { place "$kubelet" 600; systemctl restart kubelet; }
}

# keep_only old|new: the node trusts these CAs alone, and forgets the rotation.
keep_only() {
  case $1 in old) kept=$pki/vnfm-old-ca.crt ;; new) kept=$pki/vnfm-new-ca.crt ;; esac
  [ ! -e "$kept" ] || { cat "$kept" >"$temporary"; place "$pki/ca.crt" 644; }
  for ca in $others; do
    old=$pki/vnfm-old-$(name_of "$ca").crt
    case $1 in old) kept=$old ;; new) kept=$new/$(name_of "$ca").crt ;; esac
    [ ! -e "$kept" ] || { cat "$kept" >"$temporary"; place "$pki/$ca.crt" 644; }
    rm -f "$old"
  done
  update_kubelet
  sign_with "$pki/ca.crt"
  rm -rf "$new" "$signing" "$pki/vnfm-old-ca.crt" "$pki/vnfm-new-ca.crt"
}
# end_other CERTIFICATE: a rotation to another CA was given up before it ended here: the node keeps the CA of its kubelet.
end_other() {
  [ -e "$pki/vnfm-new-ca.crt" ] || return 0
  ! cmp -s "$1" "$pki/vnfm-new-ca.crt" || return 0
  if openssl verify -CAfile "$pki/vnfm-new-ca.crt" "$client" >/dev/null 2>&1; then keep_only new; else keep_only old; fi
}

case ${1:-} in
create)
  [ ! -e "$new/complete" ] || exit 0
  rm -rf "$new"; mkdir -p "$new"
  printf '[ca]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,digitalSignature,keyEncipherment,keyCertSign\nsubjectKeyIdentifier=hash\n' >"$new/extensions"
  for ca in $others; do
    [ ! -e "$pki/$ca.key" ] || make_ca "$(name_of "$ca")" "$(name_of "$ca")"
  done
  make_ca ca kubernetes
  openssl x509 -req -in "$new/request" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -CAserial "$new/serial" -sha256 -days 3650 \
    -extfile "$new/extensions" -extensions ca -out "$new/cross.crt" 2>/dev/null
  touch "$new/complete" ;;
export)
  tar -C "$new" -cf - --exclude=./signed . | base64 -w 0 ;;
import)
  rm -rf "$new.vnfm"; mkdir -p "$new.vnfm"; base64 -d "$2" | tar -C "$new.vnfm" -xf -
  end_other "$new.vnfm/ca.crt"
  if cmp -s "$new/ca.crt" "$new.vnfm/ca.crt"; then rm -rf "$new.vnfm"; else rm -rf "$new"; mv "$new.vnfm" "$new"; fi ;;
certificate)
  cat "$new/ca.crt" ;;
trust)
  end_other "$2"
  keep_first "$pki/ca.crt" "$pki/vnfm-old-ca.crt"
  cat "$2" >"$temporary"; place "$pki/vnfm-new-ca.crt" 644
  if [ -e "$manager" ]; then
    [ -e "$signing" ] || { openssl x509 -in "$pki/ca.crt" >"$temporary"; place "$signing" 644; }
    sign_with "$signing"
  fi
  for ca in $others; do
    made=$new/$(name_of "$ca").crt
    [ -e "$made" ] || continue
    keep_first "$pki/$ca.crt" "$pki/vnfm-old-$(name_of "$ca").crt"
    also_trust "$made" "$pki/$ca.crt"
  done
  also_trust "$2" "$pki/ca.crt"
  update_kubelet ;;
sign)
  [ ! -e "$new/signed" ] || exit 0
  cat "$new/ca.crt" "$pki/vnfm-old-ca.crt" >"$temporary"; place "$pki/ca.crt" 644
  cat "$new/ca.key" >"$temporary"; place "$pki/ca.key" 600
  cat "$new/ca.crt" >"$temporary"; place "$signing" 644
  for ca in $others; do
    made=$new/$(name_of "$ca")
    [ -e "$made.crt" ] || continue
    cat "$made.crt" "$pki/vnfm-old-$(name_of "$ca").crt" >"$temporary"; place "$pki/$ca.crt" 644
    cat "$made.key" >"$temporary"; place "$pki/$ca.key" 600
  done
  kubeadm certs renew all
  # Who trusts the old CA alone, such as pods that run, still trusts the API server.
  cat "$pki/apiserver.crt" "$new/cross.crt" >"$temporary"; place "$pki/apiserver.crt" 644
  touch "$new/signed" ;;
kubelet)
  node=$2 folder=${client%/*} ca=$pki/vnfm-new-ca.crt
  ! openssl verify -CAfile "$ca" "$client" >/dev/null 2>&1 || exit 0
  as_node="kubectl --kubeconfig=$kubelet"
  openssl ecparam -name prime256v1 -genkey -noout -out "$folder/vnfm.key"
  request=$(openssl req -new -key "$folder/vnfm.key" -subj "/O=system:nodes/CN=system:node:$node" | base64 -w 0)
  name=$($as_node create --validate=false -o name -f - <<Y
{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"generateName":"vnfm-kubelet-"},
 "spec":{"request":"$request","signerName":"kubernetes.io/kube-apiserver-client-kubelet","usages":["digital signature","client auth"]}}
Y
  )
  looks=0 certificate=
  until [ -n "$certificate" ]; do
    looks=$((looks + 1)); [ $looks -le 60 ] || { echo "$name is not signed" >&2; exit 4; }
    [ $looks = 1 ] || sleep 1
    certificate=$($as_node get "$name" -o 'jsonpath={.status.certificate}')
  done
  echo "$certificate" | base64 -d >"$folder/vnfm.crt"
  openssl verify -CAfile "$ca" "$folder/vnfm.crt" >/dev/null || { echo "the old CA has signed $name" >&2; exit 5; }
  pem=$folder/kubelet-client-$(date -u +%Y-%m-%d-%H-%M-%S).pem
  cat "$folder/vnfm.crt" "$folder/vnfm.key" >"$pem"; rm -f "$folder/vnfm.crt" "$folder/vnfm.key"
  ln -s "$pem" "$client.vnfm"; mv -fT "$client.vnfm" "$client"
  systemctl restart kubelet ;;
keep)
  keep_only "$2" ;;
publish)
  file=/run/vnfm/cluster-info
  $admin -n kube-public get configmap cluster-info -o 'jsonpath={.data.kubeconfig}' >"$file"
  set_ca "$file" "$pki/ca.crt" >"$file.new"
  $admin -n kube-public create configmap cluster-info --from-file="kubeconfig=$file.new" --dry-run=client -o json >"$file.json"
  $admin -n kube-public patch configmap cluster-info --patch-file="$file.json"
  rm -f "$file" "$file.new" "$file.json" ;;
*)
  echo "usage: vnfm-ca create|export|import|certificate|trust|sign|kubelet|keep|publish …" >&2; exit 2 ;;
esac
