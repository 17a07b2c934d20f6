#!/bin/sh
# vnfm-registry: lets containerd read what it needs to know of registries from a folder, and prints that folder.
# That is the first of `config_path` in its configuration; if there is none, /etc/containerd/certs.d is added, and containerd
# restarted. containerd then reads the folder at every pull. Its older way, `mirrors` and `configs` in the configuration,
# excludes this one.
set -eu
umask 022
config=/etc/containerd/config.toml
folder=/etc/containerd/certs.d
# The configuration before the change; it is there until containerd has restarted.
before=$config.before-vnfm
# The table, with the name that it has in containerd 1 and 2.
export table='^[[:space:]]*\[plugins\.["'\'']io\.containerd\.(grpc\.v1\.cri|cri\.v1\.images)["'\'']\.registry'

# The first value of `config_path` in the configuration that containerd uses.
folder_in_use() {
  containerd config dump | awk '
    /^[ \t]*\[/ { inside = ($0 ~ ENVIRON["table"] "\\]") }
    inside && /^[ \t]*config_path[ \t]*=/ { sub(/^[^"'\'']*["'\'']/, ""); sub(/["'\''].*$/, ""); sub(/:.*/, ""); print; exit }'
}

# Adds `config_path` to the configuration, whose table begins with the line $1.
add_folder() {
  [ -e "$config" ] || containerd config dump | grep '^version' >"$config"
  cp -p "$config" "$before"; cp -p "$config" "$config.vnfm"
  header=$1 line="  config_path = \"$folder\"" awk '
    /^[ \t]*\[/ { inside = ($0 ~ ENVIRON["table"] "\\]") }
    inside && /^[ \t]*config_path[ \t]*=/ { next }
    { print }
    inside && /^[ \t]*\[/ { print ENVIRON["line"]; found = 1 }
    END { if (!found) print "\n" ENVIRON["header"] "\n" ENVIRON["line"] }' "$before" >"$config.vnfm"
  mv -f "$config.vnfm" "$config"
  [ "$(folder_in_use)" = "$folder" ] || {
    mv -f "$before" "$config"
    echo "containerd does not accept \`config_path\` in $config" >&2
    exit 1
  }
}

in_use=$(folder_in_use)
if [ -n "$in_use" ]; then
  folder=$in_use
else
  shown=$(containerd config dump)
  if printf '%s\n' "$shown" | grep -Eq "$table\.(mirrors|configs)\."; then
    echo "$config has \`mirrors\` or \`configs\` of registries, which exclude \`config_path\`: move them to files hosts.toml" >&2
    exit 1
  fi
  header=$(printf '%s\n' "$shown" | grep -E "$table\]" | head -n 1 | tr -d ' \t')
  [ -n "$header" ] || { echo "containerd has no table for registries: its CRI plugin is disabled" >&2; exit 1; }
  add_folder "$header"
fi
mkdir -p "$folder"
if [ -e "$before" ]; then systemctl restart containerd; rm "$before"; fi
echo "$folder"
