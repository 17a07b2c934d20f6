#!/bin/bash
# registry.sh FOLDER [PORT]   runs a container registry with TLS and a login (user vnfm, password hunter2) until it is ended
# In FOLDER: ca.pem (its certificate, which is its own CA), data/. PORT 0, the default, is a free one; it prints `listening on ADDRESS`.
# Environment: ADDRESS (127.0.0.1: where it listens), NO_DELETE=1 (it allows no deletion)
# Needs: packages.sh install registry
set -euo pipefail
dir=${1:?folder}; port=${2:-0}; address=${ADDRESS:-127.0.0.1}
mkdir -p "$dir/data"; cd "$dir"
[ -e ca.pem ] || openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
  -addext "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:$address" -addext basicConstraints=critical,CA:FALSE -keyout key.pem -out ca.pem 2>/dev/null
htpasswd -Bbn vnfm hunter2 >htpasswd
cat >config.yml <<X
version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $PWD/data}, delete: {enabled: $([ -n "${NO_DELETE:-}" ] && echo false || echo true)}}
http: {addr: "$address:$port", secret: x, tls: {certificate: $PWD/ca.pem, key: $PWD/key.pem}}
auth: {htpasswd: {realm: vnfm, path: $PWD/htpasswd}}
X
exec docker-registry serve config.yml 2>&1
