#!/bin/bash
# next.sh BIN OUT   makes what an upgrade to the next minor version needs, for tests: OUT/archives has Debian archives of kubeadm,
# kubelet and kubectl, OUT/images the images of the control plane (OUT/images/worker: those of a worker), OUT/version the version.
# next/go.mod names that version of Kubernetes and the etcd that its kubeadm installs. Needs BIN of assets/build.sh, Go and its
# module proxy, dpkg-deb; 8 minutes on two cores when cold. What is there in the right version is left alone.
set -euo pipefail
BIN=$(cd "${1:?BIN}" && pwd); mkdir -p "${2:?OUT}/bin"; OUT=$(cd "$2" && pwd); here=$(cd "$(dirname "$0")" && pwd)
minor() { local v=${1#v1.}; echo "${v%%.*}"; }
old=$("$BIN/kubeadm" version -o short); new=$(cd "$here/next" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
[ "$(minor "$new")" = $(($(minor "$old") + 1)) ] || { echo "next/go.mod has $new, which does not follow $old" >&2; exit 2; }
[ "$(cat "$OUT/version" 2>/dev/null)" != "$new" ] || { echo "$new is there"; exit 0; }
rm -f "$OUT/version"
GO_MOD_DIR=$here/next "$here/assets/build.sh" "$OUT/bin" \
  kubeadm kubelet kubectl kube-apiserver kube-controller-manager kube-scheduler kube-proxy etcd etcdctl etcdutl
coredns=$("$OUT/bin/kubeadm" config images list --kubernetes-version "$new" | sed -n 's/.*coredns:\(v.*\)/\1/p')
COREDNS=$coredns "$here/assets/build.sh" "$OUT/bin" coredns pause
cp "$BIN"/{metrics-server,local-path-provisioner} "$OUT/bin/"
"$here/hosts/images.sh" "$OUT/bin" "$OUT/images"
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT; rm -rf "$OUT/archives"; mkdir "$OUT/archives"
for name in kubeadm kubelet kubectl; do
  rm -rf "$T/d"; mkdir -p "$T/d/DEBIAN" "$T/d/usr/bin"; cp "$OUT/bin/$name" "$T/d/usr/bin/"
  printf 'Package: %s\nVersion: %s-1.1\nArchitecture: amd64\nMaintainer: tests <tests@example.com>\nDescription: for tests\n' \
    "$name" "${new#v}" >"$T/d/DEBIAN/control"
  if [ $name = kubeadm ]; then # cgroup v1: see hosts/README.md
    mkdir -p "$T/d/usr/libexec"; mv "$T/d/usr/bin/kubeadm" "$T/d/usr/libexec/kubeadm"
    cat >"$T/d/usr/bin/kubeadm" <<'Y'
#!/bin/bash
case "${1:-} ${2:-}" in *" phase") ;; init*|join*|"upgrade apply"|"upgrade node") set -- "$@" --ignore-preflight-errors=SystemVerification;; esac
exec -a kubeadm /usr/libexec/kubeadm "$@"
Y
    chmod 755 "$T/d/usr/bin/kubeadm"
  fi
  dpkg-deb --root-owner-group -Zgzip -z1 --build "$T/d" "$OUT/archives/${name}_${new#v}-1.1_amd64.deb" >/dev/null
done
echo "$new" >"$OUT/version"
