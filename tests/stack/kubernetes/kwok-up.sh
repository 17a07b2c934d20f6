#!/bin/bash
# kwok-up.sh BIN_DIR STATE_DIR [NODES]   gives the plane that up.sh runs simulated nodes (default 2, named fake-1, fake-2, …):
# pods on them go Running and Ready with an address within seconds, and nothing is executed. down.sh STATE_DIR ends it too.
# Safe to call again. Environment: KWOK_NODE_IP (10.77.0.99), KWOK_POD_CIDR (10.200.0.0/16)
set -euo pipefail
BIN=$(cd "${1:?BIN_DIR}" && pwd); S=$(cd "${2:?STATE_DIR}" && pwd); N=${3:-2}; C=$S/admin.kubeconfig
[ -x "$BIN/kwok" ] && [ -s "$BIN/kwok.yaml" ] || { echo "no $BIN/kwok with its kwok.yaml" >&2; exit 2; }
alive() { [ -s "$S/run/kwok.pid" ] && grep -qaF -- "$S" "/proc/$(cat "$S/run/kwok.pid")/cmdline" 2>/dev/null; }
if ! alive; then
  setsid nohup "$BIN/kwok" --kubeconfig="$C" --config="$BIN/kwok.yaml" --manage-all-nodes=false \
    --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake --node-lease-duration-seconds=40 \
    --cidr="${KWOK_POD_CIDR:-10.200.0.0/16}" --node-ip="${KWOK_NODE_IP:-10.77.0.99}" >"$S/log/kwok.log" 2>&1 </dev/null &
  echo $! >"$S/run/kwok.pid"
fi
for i in $(seq "$N"); do
  printf '{"apiVersion":"v1","kind":"Node","metadata":{"name":"fake-%s","annotations":{"kwok.x-k8s.io/node":"fake"},"labels":{"type":"kwok"}}}\n' "$i"
done | "$BIN/kubectl" --kubeconfig="$C" apply -f - >/dev/null
"$BIN/kubectl" --kubeconfig="$C" wait --for=condition=Ready nodes -l type=kwok --timeout=60s >/dev/null ||
  { tail -n 15 "$S/log/kwok.log" >&2; exit 1; }
