//! `vnfm-lease`, the script that the driver of bare hosts sends with each call. On a real host that is a shell script; here the
//! same words have the same effects.

use super::shell::Shell;
use super::stdio::Output;

/// The facts of every host: CPUs, memory and disk in KiB, one interface with SR-IOV.
const FACTS: &str = "cpus 4\nmemory_kib 8388608\ndisk_kib 52428800\narchitecture x86_64\nnic eth0 52:54:00:00:00:01 8\n";

pub(super) fn vnfm_lease(shell: &Shell, words: &[&str]) -> Output {
    match words {
        ["show", folder] => Output::ok(FACTS.to_owned() + &shown(shell, folder)),
        ["swap", folder, _, _] if !shell.may_write(&format!("{folder}/lease")) => Output::fail(
            2,
            format!("mkdir: cannot create directory '{folder}': Permission denied\n"),
        ),
        ["swap", folder, old, new] => {
            swap(shell, folder, (old, new));
            Output::ok(shown(shell, folder))
        }
        _ => Output::default(),
    }
}

fn shown(shell: &Shell, folder: &str) -> String {
    let line = shell.host.disk().text(&format!("{folder}/lease"));
    line.map(|line| format!("lease {line}")).unwrap_or_default()
}

/// Holds the disk while it compares and writes.
fn swap(shell: &Shell, folder: &str, (old, new): (&str, &str)) {
    let path = format!("{folder}/lease");
    let mut disk = shell.host.disk();
    let now = disk.text(&path).unwrap_or_default();
    if now.trim_end() != old {
        return;
    }
    if new.is_empty() {
        disk.remove(&path);
    } else {
        disk.write(&path, format!("{new}\n"), 0o644);
    }
}
