//! The script that runs on a host: `show` reads, `swap` changes the lease if it is as expected.

use crate::facts::Facts;
use crate::host_lease::Leased;
use shell_words::quote;

/// `$1` verb, `$2` folder of the lease; for `swap`, `$3` the expected line and `$4` the new one, each empty for no lease.
/// `swap` holds a lock, so that of two callers with the same expectation one succeeds, and writes a new file before it renames
/// it, so that a power failure leaves the old line or the new one.
const SCRIPT: &str = r#"set -eu; umask 022; verb=$1 dir=$2 lease=$2/lease
show() { [ ! -s "$lease" ] || printf 'lease %s\n' "$(head -c 4096 "$lease" | head -n 1)"; }
case $verb in
show)
  printf 'cpus %s\n' "$(nproc --all)"
  printf 'memory_kib %s\n' "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)"
  printf 'disk_kib %s\n' "$(df -Pk / | sed -n '2s/^[^ ]* *\([0-9]*\).*/\1/p')"
  printf 'architecture %s\n' "$(uname -m)"
  for nic in /sys/class/net/*; do
    [ -e "$nic/device" ] && [ ! -e "$nic/device/physfn" ] || continue
    vfs=$(cat "$nic/device/sriov_totalvfs" 2>/dev/null || echo 0)
    printf 'nic %s %s %s\n' "${nic##*/}" "$(cat "$nic/address")" "$vfs"
  done
  show;;
swap)
  mkdir -p "$dir"; exec 9>"$dir/lease.lock"; flock -w 15 9
  now=$(head -c 4096 "$lease" 2>/dev/null || :)
  if [ "$now" = "$3" ]; then
    if [ -n "$4" ]; then printf '%s\n' "$4" >"$lease.new"; sync "$lease.new"; mv -f "$lease.new" "$lease"
    else rm -f "$lease"; fi
    sync "$dir"
  fi
  show;;
esac"#;

/// The command line that reads facts and lease.
pub(crate) fn show(folder: &str) -> String {
    format!("sh -c {} vnfm-lease show {}", quote(SCRIPT), quote(folder))
}

/// The command line that replaces the line `old` of the lease with `new`.
pub(crate) fn swap(folder: &str, old: &str, new: &str) -> String {
    format!(
        "sh -c {} vnfm-lease swap {} {} {}",
        quote(SCRIPT),
        quote(folder),
        quote(old),
        quote(new)
    )
}

/// Facts and lease of a host.
#[derive(Debug, Clone)]
pub(crate) struct HostState {
    pub(crate) facts: Facts,
    pub(crate) leased: Leased,
}

/// Longest output of the script that is read, in bytes.
pub(crate) const MAX_OUTPUT_LEN: usize = 64 << 10;

/// Reads the output of `show`.
///
/// # Errors
///
/// What is wrong with it, without a quotation.
pub(crate) fn read_state(output: &str) -> Result<HostState, String> {
    let leased = read_lease(output);
    let facts = output.lines().filter(|line| !line.starts_with(LEASE));
    Ok(HostState {
        facts: Facts::read(facts)?,
        leased,
    })
}

const LEASE: &str = "lease ";

/// Reads the lease from the output of `show` or `swap`.
pub(crate) fn read_lease(output: &str) -> Leased {
    let line = output.lines().find_map(|line| line.strip_prefix(LEASE));
    Leased::read(line.unwrap_or_default())
}
