#!/bin/sh
# install_k8s_cluster.sh [ENV_FILE]   makes this machine a node of a Kubernetes cluster; run as root.
# Parameters are lines NAME='value' in ENV_FILE, or on standard input without one; none of them is ever an argument.
#   ROLE             master or worker
#   NODE_NAME        optional: the node's name; default: the host's
#   NODE_ADDRESS     the node's address in the cluster
#   CLUSTER_ADDRESS  master: the API server's address; default: NODE_ADDRESS
#   POD_CIDR CLUSTER_CIDR   master: ranges of pods and services
#   CNI_MANIFEST     master, optional: a file with the CNI's manifest
#   SERVER BOOTSTRAP_TOKEN SSL_CA_CERT_HASH   worker: what the master's run printed
#   HTTP_PROXY HTTPS_PROXY NO_PROXY   optional
# The last line of standard output is JSON: on a master {"server", "bearer_token", "ssl_ca_cert", "ssl_ca_cert_hash",
# "certificate_key", "bootstrap_token"}, on a worker {"server", "node"}. Everything else goes to standard error.
# A second run finds what the first one made and prints the same kind of answer.
set -eu
umask 077
export KUBECONFIG=/etc/kubernetes/admin.conf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() { echo "install_k8s_cluster.sh: $*" >&2; exit 1; }
need() { eval "[ -n \"\${$1:-}\" ]" || die "parameter $1 is missing"; }

cat "${1:--}" >"$work/env"
# shellcheck disable=SC1091
. "$work/env"
need ROLE; need NODE_ADDRESS
NODE_NAME=${NODE_NAME:-$(hostname)}
for tool in kubeadm kubelet containerd openssl; do command -v $tool >/dev/null || die "$tool is not installed"; done

prepare() {
  swapoff -a || true
  modprobe br_netfilter || true
  sysctl -qw net.ipv4.ip_forward=1 >&2
  if [ -n "${HTTP_PROXY:-}${HTTPS_PROXY:-}" ]; then
    mkdir -p /etc/systemd/system/containerd.service.d
    printf '[Service]\nEnvironment="HTTP_PROXY=%s" "HTTPS_PROXY=%s" "NO_PROXY=%s"\n' \
      "${HTTP_PROXY:-}" "${HTTPS_PROXY:-}" "${NO_PROXY:-}" >/etc/systemd/system/containerd.service.d/proxy.conf
    systemctl daemon-reload >&2
    systemctl restart containerd >&2
  fi
}

init() {
  [ ! -e /etc/kubernetes/admin.conf ] || return 0
  [ ! -e /etc/kubernetes/kubelet.conf ] || kubeadm reset -f >&2
  cat >"$work/init.yaml" <<EOT
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: "$NODE_ADDRESS"}
nodeRegistration: {name: "$NODE_NAME", kubeletExtraArgs: [{name: node-ip, value: "$NODE_ADDRESS"}]}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
controlPlaneEndpoint: "${CLUSTER_ADDRESS:-$NODE_ADDRESS}:6443"
networking: {podSubnet: "${POD_CIDR:-10.244.0.0/16}", serviceSubnet: "${CLUSTER_CIDR:-10.96.0.0/12}"}
EOT
  kubeadm init --config "$work/init.yaml" >&2
}

access() {
  if [ -n "${CNI_MANIFEST:-}" ]; then kubectl apply -f "$CNI_MANIFEST" >&2; fi
  kubectl -n kube-system get serviceaccount vnfm >/dev/null 2>&1 || kubectl -n kube-system create serviceaccount vnfm >&2
  kubectl get clusterrolebinding vnfm >/dev/null 2>&1 ||
    kubectl create clusterrolebinding vnfm --clusterrole=cluster-admin --serviceaccount=kube-system:vnfm >&2
  printf '%s\n' 'apiVersion: v1' 'kind: Secret' 'type: kubernetes.io/service-account-token' \
    'metadata: {name: vnfm, namespace: kube-system, annotations: {kubernetes.io/service-account.name: vnfm}}' |
    kubectl apply -f - >&2
  token=
  tries=0
  while [ -z "$token" ]; do
    token=$(kubectl -n kube-system get secret vnfm -o 'jsonpath={.data.token}' | base64 -d)
    tries=$((tries + 1))
    [ $tries -le 60 ] || die "the service account has no token yet"
    [ -n "$token" ] || sleep 1
  done
  key=$(kubeadm init phase upload-certs --upload-certs 2>/dev/null | tail -n 1)
  # The one of `kubeadm init` is good for a day, and nobody deletes it.
  kubectl -n kube-system delete secrets --field-selector type=bootstrap.kubernetes.io/token >&2
  bootstrap=$(kubeadm token create --ttl 15m)
  hash=$(openssl x509 -pubkey -noout -in /etc/kubernetes/pki/ca.crt | openssl pkey -pubin -outform DER | sha256sum | cut -d ' ' -f 1)
  ca=$(awk '{printf "%s\\n", $0}' /etc/kubernetes/pki/ca.crt)
  printf '{"server":"https://%s:6443","bearer_token":"%s","ssl_ca_cert":"%s","ssl_ca_cert_hash":"sha256:%s","certificate_key":"%s","bootstrap_token":"%s"}\n' \
    "${CLUSTER_ADDRESS:-$NODE_ADDRESS}" "$token" "$ca" "$hash" "$key" "$bootstrap"
}

join() {
  need SERVER; need BOOTSTRAP_TOKEN; need SSL_CA_CERT_HASH
  if [ ! -e /etc/kubernetes/kubelet.conf ]; then
    kubeadm reset -f >&2
    cat >"$work/join.yaml" <<EOT
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken: {apiServerEndpoint: "${SERVER#https://}", token: "$BOOTSTRAP_TOKEN", caCertHashes: ["$SSL_CA_CERT_HASH"]}
nodeRegistration: {name: "$NODE_NAME", kubeletExtraArgs: [{name: node-ip, value: "$NODE_ADDRESS"}]}
EOT
    kubeadm join --config "$work/join.yaml" >&2
  fi
  printf '{"server":"%s","node":"%s"}\n' "$SERVER" "$NODE_NAME"
}

prepare
case $ROLE in
  master) init; access ;;
  worker) join ;;
  *) die "ROLE is neither master nor worker" ;;
esac
