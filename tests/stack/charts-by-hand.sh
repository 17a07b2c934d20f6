#!/bin/bash
# charts-by-hand.sh BIN KUBECONFIG [JSON]   charts on the control plane with nothing but helm: what our own story `many-charts` is
# held against. `one`: the chart of the sample cnf-chart, `helm install --wait`. `many`: fifty equal charts, each `helm template`
# and `helm install --wait`, eight at a time. Uninstalling is not timed.
set -euo pipefail
B=$(cd "$1" && pwd); export KUBECONFIG; KUBECONFIG=$(realpath "$2"); JSON=${3:+$(realpath "$3")}; cd "$(dirname "$0")"
T=$(mktemp -d /var/tmp/vnfm-by-hand.XXXXXX); N=charts-by-hand-$$; export B T N
bye() { "$B/kubectl" delete namespace "$N" --ignore-not-found >/dev/null 2>&1 || true; rm -rf "$T"; }
trap 'echo "failed at line $LINENO" >&2' ERR; trap bye EXIT
thousandths() { printf '%s.%03d' "$(($1 / 1000000000))" "$(($1 / 1000000 % 1000))"; }
./pack-charts.sh "$T" 50
t0=$(date +%s%N)
"$B/helm" install web ../../vnfd-samples/cnf-chart/Artifacts/Charts/web-1.0.0.tgz --namespace "$N" --create-namespace \
  --set greeting='hello by hand' --wait --timeout 120s >/dev/null
one=$(thousandths $(($(date +%s%N) - t0))); printf '%9s s  one chart\n' "$one"
"$B/helm" uninstall web --namespace "$N" --wait >/dev/null
deploy() {
  "$B/helm" template "app-$1" "$T/app-$1.tgz" --namespace "$N" >/dev/null
  "$B/helm" install "app-$1" "$T/app-$1.tgz" --namespace "$N" --wait --timeout 120s >/dev/null
}
export -f deploy
t0=$(date +%s%N)
seq 50 | xargs -P 8 -I{} bash -c 'set -e; deploy {}'
many=$(thousandths $(($(date +%s%N) - t0))); printf '%9s s  fifty charts, eight at a time\n' "$many"
[ -z "$JSON" ] || printf '{"world":"charts-by-hand","one":%s,"many":%s}\n' "$one" "$many" >"$JSON"
