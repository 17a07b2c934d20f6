#!/bin/bash
# imported.sh IMAGES_DIR OUT_DIR [CONTAINERD]   prints a folder under OUT_DIR that is containerd's root with every tar of IMAGES_DIR
# imported; made at the first call, by a containerd of its own (CONTAINERD; default: the one in PATH) that ends with it.
# Hosts begin with hard links to what lies there, but for its databases, which they copy: what containerd has unpacked it never
# writes to again. An import takes 10 s of a core and 1 GB of disk; for each host anew that was most of what a cluster cost.
set -euo pipefail
I=$(cd "${1:?IMAGES_DIR}" && pwd); mkdir -p "${2:?OUT_DIR}"; C=${3:-$(type -P containerd)}
key=$({ stat -Lc '%n %s %Y' "$I"/*.tar; "$C" --version; } | sha256sum | cut -c1-16); O=$(cd "$2" && pwd)/$key
exec 9>"$O.lock"; flock 9
if [ ! -d "$O" ]; then
  T=$O.new; rm -rf "$T"; mkdir -p "$T"; ctr=$(dirname "$C")/ctr; [ -x "$ctr" ] || ctr=$(type -P ctr)
  printf 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n' >"$T/config.toml"
  "$C" --config "$T/config.toml" --root "$T/root" --state "$T/state" --address "$T/s" >"$T/log" 2>&1 9>&- &
  p=$!; trap 'kill "$p" 2>/dev/null || true; wait "$p" || true; rm -rf "$T"' EXIT
  for _ in $(seq 100); do ! "$ctr" -a "$T/s" version >/dev/null 2>&1 || break; kill -0 "$p" || { tail -n 5 "$T/log" >&2; exit 1; }; sleep 0.1; done
  for t in "$I"/*.tar; do "$ctr" -a "$T/s" -n k8s.io images import "$t" >>"$T/log" 2>&1 || { echo "cannot import $t:" >&2; tail -n 5 "$T/log" >&2; exit 1; }; done
  kill "$p"; wait "$p" || true
  mv "$T/root" "$O"
fi
echo "$O"
