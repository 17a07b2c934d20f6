#!/bin/bash
# down.sh STATE_DIR [--purge]: stops what up.sh and kwok-up.sh started there (by recorded pid, checked against the
# process's own command line); --purge also removes STATE_DIR's etcd data, logs, certificates and kubeconfigs.
set -uo pipefail
S=$(cd "${1:?STATE_DIR}" 2>/dev/null && pwd) || exit 0
for n in kwok scheduler kcm apiserver etcd; do
  f=$S/run/$n.pid; [ -s "$f" ] || continue; p=$(cat "$f")
  if grep -qaF -- "$S" "/proc/$p/cmdline" 2>/dev/null; then
    kill -TERM "$p" 2>/dev/null
    for _ in $(seq 50); do kill -0 "$p" 2>/dev/null || break; sleep 0.1; done
    kill -0 "$p" 2>/dev/null && kill -KILL "$p" 2>/dev/null
  fi
  rm -f "$f"
done
[ "${2:-}" = --purge ] && rm -rf "$S/etcd" "$S/log" "$S/run" "$S/pki" "$S"/*.kubeconfig
exit 0
