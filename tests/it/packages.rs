//! Debian packages are installed by `tests/stack/packages.sh`; here apt is a function that says that all went well, or not.

use std::path::Path;
use std::process::{Command, Output};
use vnfm_tests::sources::root;

/// Root, nothing installed, and an apt that ends as `$APT` says; a bash that starts the script hands them on.
const WORLD: &str = r#"
id() { echo 0; }
dpkg-query() { return 1; }
apt-get() { echo "apt-get $*" >>"$CALLS"; [ -e "$PACKAGES_GUARD" ] || echo unguarded >>"$CALLS"; return "$APT"; }
export -f id dpkg-query apt-get
exec bash "$SCRIPT" install hosts package:one-more
"#;

fn install(apt: u8, folder: &Path) -> Output {
    Command::new("bash")
        .args(["-c", WORLD])
        .env("APT", apt.to_string())
        .env("CALLS", folder.join("calls"))
        .env("SCRIPT", root().join("tests/stack/packages.sh"))
        .env("PACKAGES_GUARD", folder.join("guard"))
        .env("PACKAGES_LOG", folder.join("log"))
        .output()
        .unwrap()
}

#[test]
fn packages_are_installed_and_the_guard_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let done = install(0, folder.path());
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
    assert!(
        calls.contains("containerd") && calls.contains("one-more"),
        "{calls}"
    );
    assert!(
        !calls.contains("unguarded"),
        "a daemon could start: {calls}"
    );
    assert!(!folder.path().join("guard").exists(), "the guard stayed");
}

#[test]
fn an_apt_failure_is_reported_and_the_guard_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let done = install(1, folder.path());
    let output = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{output}");
    assert!(output.contains("apt-get failed, see"), "{output}");
    assert!(!folder.path().join("guard").exists(), "the guard stayed");
}
