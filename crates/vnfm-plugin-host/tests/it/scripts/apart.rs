//! Without root, scripts get an empty network namespace through a user namespace.

use std::path::Path;

/// A user ID that nothing else on this machine has.
const NOBODY: u32 = 65534;

#[test]
fn without_root_a_script_gets_a_network_namespace_through_a_user_namespace() {
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::geteuid().is_root() {
        return; // without root, all other tests cover this
    }
    let as_nobody = |program: &Path, words: &[&str]| {
        let mut command = std::process::Command::new(program);
        command
            .args(words)
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .env("TMPDIR", "/tmp")
            .output()
    };
    let skip = |why: String| {
        assert!(
            std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
            "cannot run, and VNFM_REQUIRE_LIVE=1: {why}"
        );
        eprintln!("skipped: {why}");
    };
    let apart = as_nobody(Path::new("/usr/bin/unshare"), &["--user", "--net", "true"]);
    if !apart.as_ref().is_ok_and(|output| output.status.success()) {
        return skip(format!(
            "this kernel lets no user make namespaces: {apart:?}"
        ));
    }
    let own = "scripts::a_shell_script_finds_no_secrets_outside_its_request_and_no_network";
    let again = as_nobody(
        &std::env::current_exe().unwrap(),
        &["--exact", own, "--nocapture"],
    );
    match again {
        Err(error) => skip(format!(
            "user {NOBODY} cannot run what cargo built: {error}"
        )),
        Ok(output) => {
            let stdout = String::from_utf8_lossy(&output.stdout);
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{stdout}\n{words}");
            assert!(stdout.contains("1 passed"), "{stdout}\n{words}");
        }
    }
}
