#!/bin/bash
# redfish.sh OUT   makes a Python environment with the Redfish emulator of sushy-tools in OUT; the tests start OUT/bin/sushy-emulator
# An environment of the same version is left alone. Needs Python 3.11 with venv and its package index; ten seconds and 40 MB.
set -euo pipefail
version=2.2.0
OUT=${1:?OUT}
if [ "$(cat "$OUT/version" 2>/dev/null)" = $version ]; then echo "sushy-tools is there"; exit 0; fi
python3 -m venv --clear "$OUT"
"$OUT/bin/pip" install --quiet --disable-pip-version-check "sushy-tools==$version"
echo $version >"$OUT/version"
