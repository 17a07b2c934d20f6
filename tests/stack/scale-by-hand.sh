#!/bin/bash
# scale-by-hand.sh BIN IMAGES [JSON]   VNF-A's cluster from two workers to four by hand, with nothing but Heat's REST, ssh and
# kubectl: what our own scale-out is held against (the test `workers_join_and_leave_while_vnf_b_serves` prints its time).
# The same parallelism and the same condition at the end: two joins at once, both nodes Ready. No pauses; all images are on the
# hosts. Only the scale-out is timed. Arguments and environment: as of baseline.sh. Needs a running cloud. Root.
set -euo pipefail
B=$(cd "$1" && pwd); I=$(cd "$2" && pwd); JSON=${3:+$(realpath "$3")}; cd "$(dirname "$0")"
H=$PWD/kubernetes/hosts; O=$PWD/openstack; T=$(mktemp -d /var/tmp/vnfm-scale.XXXXXX); N=scale-by-hand
export OPENSTACK_HOME=${OPENSTACK_HOME:-/var/tmp/vnfm-stack/openstack} VNFM_HOSTS=${VNFM_HOSTS:-/var/tmp/vnfm-stack/hosts}
export HOST_BIN=$B HOST_IMAGES=$I KEY=$T/id.pub
bye() { "$O/stack3.py" delete $N >/dev/null 2>&1 || true; rm -rf "$T"; }
trap 'echo "failed at line $LINENO" >&2' ERR; trap bye EXIT
tenths() { printf '%s.%s' "$(($1 / 1000000000))" "$(($1 / 100000000 % 10))"; }
ip() { grep -o "\"$1_ip\": \"[0-9.]*\"" "$T/$2.log" | grep -o '[0-9]*\.[0-9.]*'; }
S() {
  local a=$1; shift
  ssh -q -i "$T/id" -o BatchMode=yes -o UserKnownHostsFile="$T/known" -o StrictHostKeyChecking=accept-new "ubuntu@$a" "$@"
}
# join ADDRESS…: all at once
join() {
  local J a p=(); J=$(S "$m" sudo kubeadm token create --print-join-command)
  for a in "$@"; do S "$a" "sudo sysctl -qw net.ipv4.ip_forward=1 && sudo $J" >"$T/$a.log" 2>&1 & p+=($!); done
  for a in "${p[@]}"; do wait "$a"; done
}
A() { S "$m" sudo kubectl --kubeconfig /etc/kubernetes/admin.conf "$@"; }
# ready NODES: that many, and all of them Ready
ready() {
  A wait --for=condition=Ready nodes --all --timeout=120s >/dev/null
  [ "$(A get nodes -o name | wc -l)" = "$1" ]
}
ssh-keygen -q -t ed25519 -N '' -f "$T/id"
"$O/stack3.py" create $N 2 >"$T/create.log"; grep -q ^CREATE_COMPLETE "$T/create.log"
m=$(ip master create)
for n in master worker0 worker1; do "$O/hypervisor.py" wait $n up 60 >/dev/null; done
S "$m" sudo sysctl -qw net.ipv4.ip_forward=1
S "$m" sudo kubeadm init --pod-network-cidr=10.244.0.0/16 >"$T/init.log" 2>&1 || { cat "$T/init.log"; exit 1; }
join "$(ip worker0 create)" "$(ip worker1 create)"
A apply -f - <"$H/cni.yaml" >/dev/null; ready 3

t0=$(date +%s%N); last=$t0; steps=()
step() {
  local n s; n=$(date +%s%N); s=$(tenths $((n - last))); last=$n
  printf '%7s s  %s\n' "$s" "$*"; steps+=("{\"step\":\"$*\",\"seconds\":$s}")
}
"$O/stack3.py" scale $N 4 >"$T/scale.log"; grep -q ^UPDATE_COMPLETE "$T/scale.log"
step "Heat stack with two workers more: UPDATE_COMPLETE"
for n in worker2 worker3; do "$O/hypervisor.py" wait $n up 60 >/dev/null; done; step "sshd answers on both"
join "$(ip worker2 scale)" "$(ip worker3 scale)"; step "two joins at once"
ready 5; step "all nodes Ready"
all=$(tenths $(($(date +%s%N) - t0))); printf '%7s s  in all\n' "$all"
[ -z "$JSON" ] || printf '{"world":"scale-by-hand","seconds":%s,"steps":[%s]}\n' "$all" "$(IFS=,; echo "${steps[*]}")" >"$JSON"
