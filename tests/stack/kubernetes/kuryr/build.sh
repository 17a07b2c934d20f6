#!/bin/bash
# build.sh OUT   makes a Python environment with Kuryr-Kubernetes in OUT, and its definitions in OUT/crds
# requirements.txt pins all versions; an environment of the same ones is left alone. Needs Python 3.11 with venv and its package
# index; one minute and 320 MB.
set -euo pipefail
mkdir -p "${1:?OUT}"; OUT=$(cd "$1" && pwd); cd "$(dirname "$0")"
if cmp -s requirements.txt "$OUT/requirements.txt"; then echo "Kuryr is there"; exit 0; fi
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
python3 -m venv --clear "$OUT"
"$OUT/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt
# Only the source distribution has the definitions.
kuryr=$(grep '^kuryr-kubernetes==' requirements.txt)
"$OUT/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: -d "$T" "$kuryr"
tar -xzf "$T"/*.tar.gz -C "$T" --wildcards '*/kubernetes_crds/kuryr_crds/*.yaml'
mkdir -p "$OUT/crds"; cp "$T"/*/kubernetes_crds/kuryr_crds/*.yaml "$OUT/crds/"
cp requirements.txt "$OUT/requirements.txt"
