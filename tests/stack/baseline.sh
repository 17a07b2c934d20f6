#!/bin/bash
# baseline.sh BIN IMAGES [JSON]   VNF-A and VNF-B by hand, with nothing but Heat's REST, ssh and kubectl: what our own
# times are held against. Real OpenStack (fake hypervisor) with a host made of namespaces behind each server, real
# kubeadm, pods that run; all of it taken down again. What is made is what the samples VNF-A and VNF-B make. Leaves the
# cloud running if it ran before. Root.
# BIN, IMAGES: as kubernetes/assets/build.sh and kubernetes/hosts/images.sh make them. JSON: file for
# {"world":"baseline","seconds":…,"steps":[{"step","seconds"}]}.
# Environment: OPENSTACK_HOME (/var/tmp/vnfm-stack/openstack), VNFM_HOSTS (/var/tmp/vnfm-stack/hosts)
set -euo pipefail
B=$(cd "$1" && pwd); I=$(cd "$2" && pwd); JSON=${3:+$(realpath "$3")}; cd "$(dirname "$0")"
H=$PWD/kubernetes/hosts; O=$PWD/openstack; T=$(mktemp -d /var/tmp/vnfm-baseline.XXXXXX)
export OPENSTACK_HOME=${OPENSTACK_HOME:-/var/tmp/vnfm-stack/openstack} VNFM_HOSTS=${VNFM_HOSTS:-/var/tmp/vnfm-stack/hosts}
export HOST_BIN=$B HOST_IMAGES=$I HOST_USERS="root: ubuntu:secret:nopasswd" OPENSTACK_HYPERVISOR=1
was=1; [ -s "$OPENSTACK_HOME/run/keystone.pid" ] || was=0
bye() { [ $was = 1 ] || { "$O/down.sh" >/dev/null 2>&1; "$H/lan-down.sh"; }; rm -rf "$T"; }
trap 'echo "failed at line $LINENO" >&2' ERR; trap bye EXIT
last=$(date +%s%N); t0=$last; steps=()
tenths() { printf '%s.%s' "$(($1 / 1000000000))" "$(($1 / 100000000 % 10))"; }
step() {
  local n s; n=$(date +%s%N); s=$(tenths $((n - last))); last=$n
  printf '%7s s  %s\n' "$s" "$*"; steps+=("{\"step\":\"$*\",\"seconds\":$s}")
}
[ -e /run/netns/vnfm-lan ] || "$H/lan-up.sh" 10.77.0.1/24
"$O/up.sh" >"$T/up.log" 2>&1 || { tail -n 20 "$T/up.log"; exit 1; }
step "(cloud up)"; t0=$(date +%s%N); steps=()
ssh-keygen -q -t ed25519 -N '' -f "$T/id"
KEY=$T/id.pub "$O/stack3.py" create baseline 2 >"$T/stack.log"; grep -q ^CREATE_COMPLETE "$T/stack.log"
step "Heat stack of three servers: CREATE_COMPLETE"
ip() { grep -o "\"$1_ip\": \"[0-9.]*\"" "$T/stack.log" | grep -o '[0-9]*\.[0-9.]*'; }
m=$(ip master); w=("$(ip worker0)" "$(ip worker1)")
for n in master worker0 worker1; do "$O/hypervisor.py" wait $n up 60 >/dev/null; done; step "sshd answers on all three"
S() {
  local a=$1; shift
  ssh -q -i "$T/id" -o BatchMode=yes -o UserKnownHostsFile="$T/known" -o StrictHostKeyChecking=accept-new "ubuntu@$a" "$@"
}
for a in "$m" "${w[@]}"; do S "$a" sudo sysctl -qw net.ipv4.ip_forward=1; done
S "$m" sudo kubeadm init --pod-network-cidr=10.244.0.0/16 >"$T/init.log" 2>&1 || { cat "$T/init.log"; exit 1; }
step "kubeadm init"
J=$(S "$m" sudo kubeadm token create --print-join-command); p=()
for a in "${w[@]}"; do S "$a" "sudo $J" >"$T/$a.log" 2>&1 & p+=($!); done; for i in "${p[@]}"; do wait "$i"; done
step "two joins at once"
A() { S "$m" sudo kubectl --kubeconfig /etc/kubernetes/admin.conf "$@"; }
A apply -f - <"$H/cni.yaml" >/dev/null; A wait --for=condition=Ready nodes --all --timeout=120s >/dev/null
step "CNI, all nodes Ready"
A -n kube-system create serviceaccount vnfm >/dev/null
A create clusterrolebinding vnfm --clusterrole=cluster-admin --serviceaccount=kube-system:vnfm >/dev/null
token=$(A -n kube-system create token vnfm); S "$m" sudo cat /etc/kubernetes/pki/ca.crt >"$T/ca.crt"
step "credentials"
K() { "$B/kubectl" --kubeconfig=/dev/null --server="https://$m:6443" --certificate-authority="$T/ca.crt" --token="$token" "$@"; }
for f in page web service; do
  echo ---; sed 's/\$replicas/2/; s/\$greeting/hello from the config map/' "../../vnfd-samples/vnf-b-cnf/Files/kubernetes/$f.yaml"
done >"$T/vnf-b.yaml"
K create namespace vnf-b >/dev/null
K -n vnf-b apply -f "$T/vnf-b.yaml" >/dev/null; K -n vnf-b rollout status deploy/web --timeout=60s >/dev/null
step "VNF-B: Deployment, Service, ConfigMap Ready"
K delete namespace vnf-b --wait >/dev/null; step "VNF-B gone"
"$O/stack3.py" delete baseline | sed 's/^/           /'; step "stack gone"
all=$(tenths $(($(date +%s%N) - t0))); printf '%7s s  in all, without the cloud\n' "$all"
[ -z "$JSON" ] || printf '{"world":"baseline","seconds":%s,"steps":[%s]}\n' "$all" "$(IFS=,; echo "${steps[*]}")" >"$JSON"
