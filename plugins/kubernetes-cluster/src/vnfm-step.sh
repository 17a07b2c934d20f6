#!/bin/sh
# vnfm-step: runs the long steps of an installation on their host, so that they outlive the connection that began them.
#   vnfm-step start INSTANCE STEP [FILE…] -- COMMAND…   "started", "running" if it runs already, or "other" if the STEP runs
#                                               another COMMAND; the steps of one INSTANCE run one after another; each FILE is
#                                               gone when COMMAND has ended
#   vnfm-step wait STEP SECONDS                 "absent", "running", "lost" or "done CODE", after SECONDS at the latest
#   vnfm-step log STEP                          the last lines of what it wrote
#   vnfm-step out STEP                          all that it wrote to standard output
#   vnfm-step forget STEP                       as if it had never ended: afterwards it is "running", "lost" or "absent"
#   vnfm-step facts                             what the host is like, as name=value lines
# A step holds a lock on its folder as long as it lives: whoever waits, waits for that lock, and sees its end at once. A power
# cut empties our folder. So that a node that is half set up does not pass for a whole one, `init` and `join` leave a file on
# the disk until they, or a `reset`, have ended well. INSTANCE is the owner of a host that they, or a vendor's `script`, make
# a node.
set -eu
umask 077
base=${0%/*}
state=/var/lib/vnfm
stopped=/etc/kubernetes/vnfm-stopped/etcd.yaml
newline='
'
yes() { if [ -e "$1" ]; then echo yes; else echo no; fi; }

missing() { for program in "$@"; do command -v "$program" >/dev/null 2>&1 || echo "$program"; done | tr '\n' ' '; }

case ${1:-} in
start)
  instance=$2 step=$3 files=; shift 3
  while [ "$1" != -- ]; do files="$files$1$newline"; shift; done; shift
  dir=$base/$step; mkdir -p "$dir"
  exec 8>"$dir/lock"
  flock -n 8 || { if [ "$(cat "$dir/command")" = "$*" ]; then echo running; else echo other; fi; exit 0; }
  echo "$*" >"$dir/command"; rm -f "$dir/exit"
  case $step in init|join|script) mkdir -p "$state"; echo "$instance" >"$state/owner" ;; esac
  case $step in
  init|join) done=$state/unfinished; touch "$done"; sync "$state/owner" "$done" ;;
  reset) done=$state/unfinished ;;
  *) done= ;;
  esac
  # Neither lock may pass on to daemons that the command leaves behind.
  setsid sh -c '
    exec 9>"$1"; flock 9
    dir=$2 files=$3 done=$4; shift 4; code=0
    "$@" 8>&- 9>&- || code=$?
    set -f; IFS="
"
    rm -f -- $files
    [ "$code" != 0 ] || rm -f $done
    echo "$code" >"$dir/exit.new"; mv -f "$dir/exit.new" "$dir/exit"
  ' vnfm-step "$base/$instance.lock" "$dir" "$files" "$done" "$@" </dev/null >"$dir/out" 2>"$dir/log" &
  echo started ;;
wait)
  dir=$base/$2
  [ -e "$dir/lock" ] || { echo absent; exit 0; }
  if [ "$3" -gt 0 ]; then set -- -w "$3"; else set -- -n; fi
  flock "$@" "$dir/lock" true || { echo running; exit 0; }
  if [ -e "$dir/exit" ]; then echo "done $(cat "$dir/exit")"; else echo lost; fi ;;
log)
  for stream in out log; do [ ! -e "$base/$2/$stream" ] || tail -n 25 "$base/$2/$stream"; done ;;
out)
  cat "$base/$2/out" ;;
forget)
  rm -f "$base/$2/exit" ;;
facts)
  echo "hostname=$(hostname)"
  echo "missing=$(missing kubeadm kubelet kubectl containerd)"
  echo "endpoint_missing=$(missing haproxy keepalived)"
  echo "kubeadm=$(kubeadm version -o short 2>/dev/null || true)"
  if [ "$(wc -l </proc/swaps)" -gt 1 ]; then echo swap=yes; else echo swap=no; fi
  echo "runtime=$(yes /run/containerd/containerd.sock)"
  echo "admin=$(yes /etc/kubernetes/admin.conf)"
  echo "kubelet=$(yes /etc/kubernetes/kubelet.conf)"
  echo "bootstrap=$(yes /etc/kubernetes/bootstrap-kubelet.conf)"
  echo "ca=$(yes /etc/kubernetes/pki/ca.crt)"
  echo "unfinished=$(yes "$state/unfinished")"
  if [ -e /etc/kubernetes/manifests/etcd.yaml ]; then echo etcd_stopped=no; else echo "etcd_stopped=$(yes "$stopped")"; fi
  echo "owner=$(cat "$state/owner" 2>/dev/null || true)" ;;
*)
  echo "usage: vnfm-step start|wait|log|out|forget|facts …" >&2; exit 2 ;;
esac
