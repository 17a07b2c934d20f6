#!/bin/sh
# vnfm-software: installs software of the VNF package on its host, and records which version the host has.
#   vnfm-software list                 a line NAME VERSION SHA256 each; VERSION and SHA256 are `-` if there is none, and a
#                                      fourth word `interrupted` follows if an installation has begun and not succeeded
#   vnfm-software sums NAME VERSION    the hashes of the files of a version, if the host has these files
#   vnfm-software install NAME VERSION SECONDS ROLE NODE
#                                      installs the files of a version within SECONDS and records it; exit code 124: too slow
# The files of a version are in FOLDER/NAME/VERSION: `artifact/FILE`, `installer` if the package has a script, and `sums` with
# their hashes, that of the artifact first. Those of the version before are kept for the way back.
set -eu
umask 077
folder=/var/lib/vnfm/software

# The recorded version and hash of the software $1.
recorded() { cat "$folder/$1/.installed" 2>/dev/null || true; }
are_complete() { sha256sum -c sums >/dev/null 2>&1; }

case ${1:-} in
list)
  for path in "$folder"/*; do
    name=${path##*/}; line=$(recorded "$name")
    [ ! -e "$path/.begun" ] || line="${line:-- -} interrupted"
    [ -z "$line" ] || echo "$name $line"
  done ;;
sums)
  if cd "$folder/$2/$3" 2>/dev/null && are_complete; then cat sums; fi ;;
install)
  own=$folder/$2 version=$3 seconds=$4 before=$(recorded "$2"); before=${before%% *}
  cd "$own/$version" 2>/dev/null && are_complete || { echo "the host lacks files of $2 $version, or they are damaged" >&2; exit 3; }
  touch "$own/.begun"
  export NAME="$2" VERSION="$3" ROLE="$5" NODE_NAME="$6" PREVIOUS_VERSION="$before"
  code=0
  timeout -k 10 "$seconds" sh "$0" run || code=$?
  # 137: it had to be killed.
  [ "$code" -ne 137 ] || code=124
  [ "$code" -eq 0 ] || exit "$code"
  echo "$version $(sed -n '1s/ .*//p' sums)" >"$own/.installed.new"
  sync "$own/.installed.new"
  mv -f "$own/.installed.new" "$own/.installed"
  rm -f "$own/.begun"
  [ "$before" != "$version" ] || exit 0
  for path in "$own"/*/; do
    path=${path%/}
    case ${path##*/} in "$version" | "$before") ;; *) rm -rf "$path" ;; esac
  done ;;
run)
  # Only for `install`, which limits its time; the files that it makes are for everyone.
  umask 022
  own=$folder/$NAME/$VERSION
  export ARTIFACT="$own/$(sed -n '1s/^[^ ]*  *//p' "$own/sums")"
  cd "$own"
  case $ARTIFACT in
  *.tar | *.tar.gz | *.tgz)
    rm -rf content; mkdir content; cd content
    tar --no-same-owner -xf "$ARTIFACT" ;;
  esac
  if [ -e "$own/installer" ]; then exec "$own/installer"; fi
  case $ARTIFACT in
  *.deb)
    export DEBIAN_FRONTEND=noninteractive
    exec dpkg -i --force-confold "$ARTIFACT" ;;
  *.tar | *.tar.gz | *.tgz)
    [ -e install.sh ] || { echo "the archive has no install.sh" >&2; exit 3; }
    exec sh ./install.sh ;;
  esac
  mkdir -p /usr/local/bin
  install -m 0755 "$ARTIFACT" "/usr/local/bin/$NAME.vnfm"
  mv -f "/usr/local/bin/$NAME.vnfm" "/usr/local/bin/$NAME" ;;
*)
  echo "usage: vnfm-software list|sums|install …" >&2; exit 2 ;;
esac
