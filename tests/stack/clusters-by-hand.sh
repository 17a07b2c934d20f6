#!/bin/bash
# clusters-by-hand.sh BIN IMAGES [JSON]   the story `clusters` by hand, with nothing but Heat's REST, ssh, kubeadm, kubectl and etcd's
# tools: what `cargo xtask bench --real --clusters` holds ours against. Three control planes behind HAProxy and keepalived, two
# workers and VNF-B; the same steps in the same order with the same parallelism, and each ends as ours do: all nodes Ready, and
# the components and pods, too. No pauses but the intervals of polls (0.3 s); all images are on the hosts. Not by hand: the
# rotations of the CAs, for which Kubernetes has no command, and of the login, which is one Secret.
# Arguments: as of baseline.sh; besides BIN lies kubernetes-next, as kubernetes/next.sh makes it. Needs a running cloud. Root.
set -Eeuo pipefail
B=$(cd "$1" && pwd); I=$(cd "$2" && pwd); JSON=${3:+$(realpath "$3")}; cd "$(dirname "$0")"
H=$PWD/kubernetes/hosts; O=$PWD/openstack; T=$(mktemp -d /var/tmp/vnfm-clusters.XXXXXX); N=clusters-by-hand
X=$(cd "$B/../kubernetes-next" && pwd); new=$(cat "$X/version")
export OPENSTACK_HOME=${OPENSTACK_HOME:-/var/tmp/vnfm-stack/openstack} VNFM_HOSTS=${VNFM_HOSTS:-/var/tmp/vnfm-stack/hosts}
export HOST_BIN=$B HOST_IMAGES=$I KEY=$T/id.pub
vip=10.77.0.252 port=16443 passphrase='a passphrase for the demo'
masters=(master master1 master2) workers=(worker0 worker1)
declare -A node # the name of each server's node: that of a server that was replaced is another one
bye() { "$O/stack3.py" delete $N >/dev/null 2>&1 || true; rm -rf "$T"; }
trap 'echo "failed at line $LINENO" >&2' ERR; trap bye EXIT
tenths() { printf '%s.%s' "$(($1 / 1000000000))" "$(($1 / 100000000 % 10))"; }
ip() { grep -o "\"$1_ip\": \"[0-9.]*\"" "$T/stack.log" | grep -o '[0-9]*\.[0-9.]*'; }
S() { # S SERVER COMMAND
  local a; a=$(ip "$1"); shift
  ssh -q -i "$T/id" -o BatchMode=yes -o UserKnownHostsFile="$T/known" -o StrictHostKeyChecking=accept-new "ubuntu@$a" "$@"
}
each() { # each COMMAND SERVER…: on all at once
  local c=$1 n p=(); shift
  for n in "$@"; do "$c" "$n" >"$T/$c-$n.log" 2>&1 & p+=($!); done
  for n in "${p[@]}"; do wait "$n" || { tail -n 20 "$T/$c"-*.log >&2; return 1; }; done
}
until_ok() { local end=$((SECONDS + 600)); until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || { echo "not within 600 s: $* ${c:-} ${n:-}" >&2; return 1; }; sleep 0.3; done; }
A() { S "$m" sudo kubectl --kubeconfig /etc/kubernetes/admin.conf "$@"; }
all_ready() { A wait --for=condition=Ready nodes --all --timeout=5s && [ "$(A get nodes -o name | wc -l)" = "$1" ]; }
etcd() { # etcd SERVER ARGUMENT…: etcdctl in the member's container
  local n=$1 k=/etc/kubernetes/pki/etcd; shift
  A -n kube-system exec "etcd-${node[$n]}" -- etcdctl --endpoints=https://127.0.0.1:2379 --cacert=$k/ca.crt --cert=$k/healthcheck-client.crt \
    --key=$k/healthcheck-client.key "$@"
}
lb() { # HAProxy and keepalived on a control plane
  local n servers="" peers="" i=0 priority=150 interface
  for n in "${masters[@]}"; do
    servers+="    server $n $(ip "$n"):6443"$'\n'
    if [ "$n" = "$1" ]; then priority=$((150 - i)); else peers+="        $(ip "$n")"$'\n'; fi
    i=$((i + 1))
  done
  interface=$(S "$1" ip -o addr show to "$(ip "$1")" | awk '{print $2; exit}')
  S "$1" sudo tee /etc/haproxy/haproxy.cfg >/dev/null <<Y
global
    user haproxy
    group haproxy
defaults
    mode tcp
    timeout connect 2s
    timeout check 2s
    timeout client 1h
    timeout server 1h
    option redispatch 1
frontend kubernetes-api
    bind 0.0.0.0:$port
    default_backend control-planes
backend control-planes
    balance roundrobin
    option httpchk GET /readyz
    http-check expect rstatus ^(200|401)$
    default-server check check-ssl verify none inter 2s fastinter 500ms fall 3 rise 1 on-marked-down shutdown-sessions
$servers
Y
  S "$1" sudo tee /etc/keepalived/keepalived.conf >/dev/null <<Y
vrrp_instance kubernetes_api {
    state BACKUP
    nopreempt
    interface $interface
    virtual_router_id 51
    priority $priority
    advert_int 1
    unicast_src_ip $(ip "$1")
    unicast_peer {
$peers    }
    virtual_ipaddress {
        $vip
    }
}
Y
  S "$1" 'sudo systemctl enable haproxy keepalived && sudo systemctl restart haproxy && sudo systemctl restart keepalived'
}
joined() { S "$1" "sudo sysctl -qw net.ipv4.ip_forward=1 && sudo $J"; }
join_masters() { # one after the other: etcd takes one learner at a time
  local n key; key=$(S "$m" sudo kubeadm init phase upload-certs --upload-certs | tail -n 1)
  for n in "$@"; do S "$n" "sudo sysctl -qw net.ipv4.ip_forward=1 && sudo $J --control-plane --certificate-key $key" >"$T/join-$n.log" 2>&1; done
}
up() {
  local n
  for n in "$@"; do
    "$O/hypervisor.py" wait "$n" up 60 >/dev/null
    ssh-keygen -q -f "$T/known" -R "$(ip "$n")" >/dev/null 2>&1 || true # a server that was replaced has another key
    until_ok S "$n" true; node[$n]=$(S "$n" hostname)
  done
}
t0=0 last=0 total=0 steps=()
begin() { t0=$(date +%s%N); }
step() {
  last=$(($(date +%s%N) - t0)); total=$((total + last)); local s; s=$(tenths $last)
  printf '%7s s  %s\n' "$s" "$*"; steps+=("{\"step\":\"$*\",\"seconds\":$s}")
}
ssh-keygen -q -t ed25519 -N '' -f "$T/id"

begin
"$O/stack3.py" create $N 2 3 >"$T/stack.log"; grep -q ^CREATE_COMPLETE "$T/stack.log"
m=master; up "${masters[@]}" "${workers[@]}"
each lb "${masters[@]}"
S "$m" "sudo sysctl -qw net.ipv4.ip_forward=1 && sudo kubeadm init --control-plane-endpoint $vip:$port --pod-network-cidr=10.244.0.0/16" \
  >"$T/init.log" 2>&1 || { cat "$T/init.log"; exit 1; }
J=$(S "$m" sudo kubeadm token create --print-join-command)
each joined "${workers[@]}" & w=$!
A apply -f - <"$H/cni.yaml" >/dev/null
join_masters master1 master2; wait $w
until_ok all_ready 5; step "instantiate VNF-A"

A create namespace vnf-b >/dev/null
for f in page web service; do
  echo ---; sed 's/\$replicas/2/; s/\$greeting/hello from the config map/' "../../vnfd-samples/vnf-b-cnf/Files/kubernetes/$f.yaml"
done | A -n vnf-b apply -f - >/dev/null
A -n vnf-b apply -f - >/dev/null <<'Y'
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web-stays}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}
Y
served() { A -n vnf-b rollout status deploy/web --timeout=120s >/dev/null; }
served

begin
"$O/stack3.py" scale $N 4 3 >"$T/stack.log"; grep -q ^UPDATE_COMPLETE "$T/stack.log"; up worker2 worker3
J=$(S "$m" sudo kubeadm token create --print-join-command); each joined worker2 worker3
until_ok all_ready 7; step "scale to four workers"

drain() { A drain "${node[$1]}" --ignore-daemonsets --delete-emptydir-data --timeout=120s; }
leave() { drain "$1" && S "$1" sudo kubeadm reset --force && A delete node "${node[$1]}"; }
begin
each leave worker2 worker3; served
"$O/stack3.py" scale $N 2 3 >"$T/stack.log"; grep -q ^UPDATE_COMPLETE "$T/stack.log"
until_ok all_ready 5; step "scale to two workers"

replace() { # replace SERVER: another control plane in its place
  "$O/stack3.py" replace $N "$1" 2 3 >"$T/stack.log"; grep -q ^UPDATE_COMPLETE "$T/stack.log"; up "$1"
  lb "$1"; J=$(S "$m" sudo kubeadm token create --print-join-command); join_masters "$1"; until_ok all_ready 5
}
remove() { # remove SERVER: member and node
  local all id; all=$(etcd "$m" member list) || return 1
  id=$(grep ", ${node[$1]}," <<<"$all" | cut -d, -f1 || true)
  [ -z "$id" ] || etcd "$m" member remove "$id" >/dev/null || return 1
  A delete node "${node[$1]}" >/dev/null
}
"$O/hypervisor.py" power-off master >/dev/null; m=master1
until_ok curl -ksSf -m 1 --noproxy '*' "https://$vip:$port/readyz"
begin
until_ok remove master; replace master; step "heal the control plane whose power was cut"

components=(etcd kube-apiserver kube-controller-manager kube-scheduler)
again() {
  local pod=pod/$c-${node[$n]}
  A -n kube-system wait --for=condition=Ready "$pod" --timeout=5s && [ "$(A -n kube-system get "$pod" -o 'jsonpath={.metadata.labels.by-hand}')" = again ]
}
begin
for n in "${masters[@]}"; do
  S "$n" sudo kubeadm certs renew all >/dev/null
  for c in "${components[@]}"; do
    f=/etc/kubernetes/manifests/$c.yaml # written beside the folder: kubelet takes every file in it for a manifest
    S "$n" "sudo sh -c \"sed 's/^  labels:\\\$/&\\n    by-hand: again/' $f >/etc/kubernetes/by-hand.yaml && mv /etc/kubernetes/by-hand.yaml $f\""
  done
  for c in "${components[@]}"; do until_ok again; done
done
step "rotate the certificates"

begin
for n in "${masters[@]}"; do
  etcd "$n" snapshot save /var/lib/etcd/new.db >"$T/snapshot.log" 2>&1
  S "$n" "sudo mkdir -p /var/lib/backup && echo '$passphrase' | sudo openssl enc -aes-256-cbc -salt -pbkdf2 -iter 600000 -md sha256 \
    -in /var/lib/etcd/new.db -out /var/lib/backup/snapshot.enc -pass stdin && sudo rm /var/lib/etcd/new.db"
done
S "$m" sudo cat /var/lib/backup/snapshot.enc >"$T/snapshot.enc"; step "back up etcd"

stop='sudo mkdir -p /etc/kubernetes/stopped && sudo mv /etc/kubernetes/manifests/etcd.yaml /etc/kubernetes/manifests/kube-apiserver.yaml
  /etc/kubernetes/stopped/ && while pgrep -x etcd >/dev/null || pgrep -x kube-apiserver >/dev/null; do sleep 0.3; done'
stop=${stop//$'\n'/ }
stopped() { S "$1" "$stop"; }
begin
etcd_has() { S "$m" "sudo sed -n 's/^ *$1//p' /etc/kubernetes/manifests/etcd.yaml"; }
image=$(etcd_has 'image: *') peer=$(etcd_has '- --initial-advertise-peer-urls=')
S "$m" "echo '$passphrase' | sudo openssl enc -d -aes-256-cbc -pbkdf2 -iter 600000 -md sha256 -in /var/lib/backup/snapshot.enc \
    -out /var/lib/etcd/old.db -pass stdin && sudo rm -rf /var/lib/etcd/new &&
  sudo ctr -n k8s.io run --rm --net-host --mount type=bind,src=/var/lib/etcd,dst=/var/lib/etcd,options=rbind:rw $image by-hand \
    etcdutl snapshot restore /var/lib/etcd/old.db --name ${node[$m]} --initial-cluster ${node[$m]}=$peer \
    --initial-advertise-peer-urls $peer --data-dir /var/lib/etcd/new --bump-revision 1000000000 --mark-compacted" \
  >"$T/restore.log" 2>&1 || { cat "$T/restore.log"; exit 1; }
each stopped "${masters[@]}"
S "$m" 'sudo sh -c "rm -rf /var/lib/etcd/member && mv /var/lib/etcd/new/member /var/lib/etcd/ && mv /etc/kubernetes/stopped/*.yaml /etc/kubernetes/manifests/"'
until_ok A get --raw /readyz; step "restore the snapshot of etcd"
for n in master master2; do
  begin; until_ok remove $n; replace $n; step "heal $n"
done

deb() { S "$n" "cd /var/tmp && sudo dpkg -i ${*/%/_*.deb}" >/dev/null 2>&1; } # deb PROGRAM…
for n in "${masters[@]}" "${workers[@]}"; do # what a registry and a mirror of packages would have: not timed
  pid=$(cat "$VNFM_HOSTS/$(python3 -c 'import json,sys
for s in json.load(open(sys.argv[1])).values():
    if s["name"] == sys.argv[2]: print(s["host"])' "$OPENSTACK_HOME/hypervisor/servers.json" "$n")/pid")
  i=$X/images; case $n in worker*) i=$X/images/worker ;; esac
  mkdir -p "/proc/$pid/root/var/tmp/images"; cp "$i"/*.tar "/proc/$pid/root/var/tmp/images/"; cp "$X"/archives/*.deb "/proc/$pid/root/var/tmp/"
  S "$n" 'for t in /var/tmp/images/*.tar; do sudo ctr -n k8s.io images import "$t" >/dev/null; done; sudo rm -rf /var/tmp/images
    sudo mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers; sudo touch /var/lib/dpkg/status'
done
has_version() { A wait --for=condition=Ready "node/${node[$n]}" --timeout=5s && [ "$(A get "node/${node[$n]}" -o 'jsonpath={.status.nodeInfo.kubeletVersion}')" = "$new" ]; }
kubelet() {
  drain "$n" >/dev/null 2>&1; deb kubelet kubectl
  S "$n" 'sudo systemctl daemon-reload && sudo systemctl restart kubelet'; until_ok has_version; A uncordon "${node[$n]}" >/dev/null
}
begin
for n in "${masters[@]}"; do
  deb kubeadm
  if [ "$n" = master ]; then S "$n" sudo kubeadm upgrade apply --yes "$new"; else S "$n" sudo kubeadm upgrade node; fi >"$T/upgrade-$n.log" 2>&1
  kubelet
done
for n in "${workers[@]}"; do
  deb kubeadm; S "$n" sudo kubeadm upgrade node >"$T/upgrade-$n.log" 2>&1; kubelet; served
done
step "upgrade Kubernetes to $new"

all=$(tenths $total); printf '%7s s  in all\n' "$all"
[ -z "$JSON" ] || printf '{"world":"clusters-by-hand","seconds":%s,"steps":[%s]}\n' "$all" "$(IFS=,; echo "${steps[*]}")" >"$JSON"
