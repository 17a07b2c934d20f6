//! A plugin built by another Rust version without the SDK works: the ABI is C, and each side
//! has its own standard library.

use crate::world::{AMPLE, Folder, RUNNERS, Remembering, request};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use vnfm_core::ports::MgmtDrivers as _;
use vnfm_plugin_host::Runner;

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/old-rust")
}

/// Its hook runs, a panic fails only its own hook, and the next hook runs again.
async fn works(library: &Path, runner: Runner) {
    let folder = Folder::new();
    folder.put(library, "old.so");
    let plugins = folder.host_of(runner);
    plugins.allow("old.so").unwrap();
    let driver = plugins.resolve(&"old-rust".into()).unwrap();
    assert_eq!(driver.declaration().version, "1.0.0");
    for _ in 0..2 {
        let host = Arc::new(Remembering::default());
        let effects = driver
            .call(request("instantiate_end", AMPLE), host.clone())
            .await
            .unwrap();
        assert_eq!(effects.message.as_deref(), Some("done in another Rust"));
        assert_eq!(host.services(), ["progress"]);
        assert!(
            host.logs()
                .iter()
                .any(|line| line == "info: hello from another Rust")
        );
        let panicked = driver
            .call(request("terminate_end", AMPLE), host)
            .await
            .unwrap_err();
        assert_eq!(panicked.name(), "plugin.panicked", "{panicked}");
        assert!(
            panicked
                .to_string()
                .contains("its own library contained it"),
            "{panicked}"
        );
    }
}

#[tokio::test]
async fn a_library_built_by_an_older_rust_works() {
    if std::env::consts::ARCH != "x86_64" {
        eprintln!("skipped: the library of Rust 1.63 is one for x86_64");
        return;
    }
    for runner in RUNNERS {
        works(&here().join("1.63.0-x86_64.so"), runner).await;
    }
}

#[tokio::test]
async fn its_source_compiles_with_the_current_rust() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("today.so");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(&rustc);
    command.args([
        "--edition",
        "2018",
        "--crate-type",
        "cdylib",
        "-C",
        "strip=symbols",
        "-o",
    ]);
    let output = command
        .arg(&library)
        .arg(here().join("plugin.rs"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for runner in RUNNERS {
        works(&library, runner).await;
    }
}
