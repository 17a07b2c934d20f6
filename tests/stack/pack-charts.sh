#!/bin/bash
# pack-charts.sh DIR N   writes N equal charts, app-1.tgz to app-N.tgz: a ConfigMap and a Deployment of one pod each
set -euo pipefail
D=${1:?DIR}; N=${2:?N}; mkdir -p "$D"; T=$(mktemp -d /var/tmp/vnfm-charts.XXXXXX); trap 'rm -rf "$T"' EXIT
for i in $(seq "$N"); do
  C=$T/app-$i; mkdir -p "$C/templates"
  printf 'apiVersion: v2\nname: app-%s\nversion: 1.0.0\n' "$i" >"$C/Chart.yaml"
  echo 'greeting: hello' >"$C/values.yaml"
  cat >"$C/templates/app.yaml" <<'X'
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {index.html: {{ .Values.greeting | quote }}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: '{{ .Release.Name }}'}
spec:
  replicas: 1
  selector: {matchLabels: {app: '{{ .Release.Name }}'}}
  template:
    metadata: {labels: {app: '{{ .Release.Name }}'}}
    spec:
      containers: [{name: app, image: 'localhost/busybox:1', imagePullPolicy: Never, command: [httpd, -f, -h, /www],
        volumeMounts: [{name: page, mountPath: /www}]}]
      volumes: [{name: page, configMap: {name: '{{ .Release.Name }}'}}]
X
  tar -C "$T" -czf "$D/app-$i.tgz" "app-$i"
done
