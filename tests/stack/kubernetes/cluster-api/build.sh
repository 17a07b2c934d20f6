#!/bin/bash
# build.sh OUT_DIR   builds the controllers of Cluster API with Go's own tool dependencies (go.mod here), and copies their
# definitions: core, bootstrap, control-plane, infrastructure (the development provider, with machines in memory), crds/
# Programs that are there in the right version are left alone. Needs Go >= 1.26 and its module proxy.
set -euo pipefail
OUT=${1:?OUT_DIR}; mkdir -p "$OUT/crds"; OUT=$(cd "$OUT" && pwd); cd "$(dirname "$0")"
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false ${GOFLAGS:-}"
M=sigs.k8s.io/cluster-api
V=$(go list -m -f '{{.Version}}' $M)
if [ "$(cat "$OUT/version" 2>/dev/null)" = "$V" ]; then echo "Cluster API $V is there"; exit 0; fi
while read -r name package definitions; do
  s=$SECONDS
  go build -trimpath -ldflags '-s -w' -o "$OUT/$name" "$package"
  cp "$(go list -m -f '{{.Dir}}' "$definitions")/${package#"$definitions"/}"/config/crd/bases/*.yaml "$OUT/crds/"
  echo "$name $((SECONDS - s)) s"
done <<X1
core $M/core $M
bootstrap $M/bootstrap/kubeadm $M
control-plane $M/controlplane/kubeadm $M
infrastructure $M/test/infrastructure/docker $M/test
X1
chmod -R u+w "$OUT/crds"
echo "$V" >"$OUT/version"
