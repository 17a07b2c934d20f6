//! The checked-in C header matches the Rust types, and a C compiler agrees with its layout.

use std::path::Path;
use std::process::Command;
use vnfm_plugin_abi::header::c_header;

fn checked_in() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/vnfm_plugin.h")
}

#[test]
fn the_header_is_current() {
    let path = checked_in();
    if std::env::var_os("VNFM_UPDATE_GENERATED").is_some() {
        std::fs::write(&path, c_header()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == c_header(),
        "`{}` is stale; hint: run this test with VNFM_UPDATE_GENERATED=1",
        path.display()
    );
}

#[test]
fn c_and_rust_agree_on_size_and_offset_of_everything() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&compiler)
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-fsyntax-only",
            "-x",
            "c",
        ])
        .arg(checked_in())
        .output()
        .unwrap_or_else(|error| panic!("cannot run `{compiler}`: {error}"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
