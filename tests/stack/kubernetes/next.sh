#!/bin/bash
# next.sh BIN OUT   makes what an upgrade by one minor version needs, for tests: OUT/archives has Debian archives of kubeadm,
# kubelet and kubectl, OUT/images the images of the control plane (OUT/images/worker: those of a worker), OUT/version the version.
# It is the source of assets/go.mod once more, stamped with the next minor version: every program says that it has that
# version and behaves as such where versions matter (skew rules, manifests, images), but has no other code. Needs BIN of
# assets/build.sh, Go, dpkg-deb; with Go's build cache warm it only links: about a minute. What is there is left alone.
set -euo pipefail
BIN=$(cd "${1:?BIN}" && pwd); mkdir -p "${2:?OUT}"; OUT=$(cd "$2" && pwd); here=$(cd "$(dirname "$0")" && pwd)
old=$("$BIN/kubeadm" version -o short); minor=${old#v1.}; minor=$((${minor%%.*} + 1)); new=v1.$minor.0
[ "$(cat "$OUT/version" 2>/dev/null)" != "$new" ] || { echo "$new is there"; exit 0; }
mkdir -p "$OUT/bin"
cd "$here/assets"
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false
V=k8s.io/component-base/version
stamp="-X $V.gitVersion=$new -X $V.gitMajor=1 -X $V.gitMinor=$minor -X $V.gitTreeState=clean"
for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl; do
  [ -x "$OUT/bin/$name" ] || go build -trimpath -ldflags "-s -w $stamp" -o "$OUT/bin/$name" "k8s.io/kubernetes/cmd/$name"
done
# `kubeadm upgrade` runs the pause image with -v, and expects that it ends
go build -trimpath -ldflags "-s -w" -o "$OUT/bin/pause" kube-assets/pause
for name in etcdctl etcdutl; do go build -trimpath -ldflags "-s -w" -o "$OUT/bin/$name" "go.etcd.io/etcd/$name/v3"; done
cp "$BIN"/{etcd,coredns,metrics-server,local-path-provisioner} "$OUT/bin/"
"$here/hosts/images.sh" "$OUT/bin" "$OUT/images"
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT; mkdir -p "$OUT/archives"
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
