//! Libraries built with released SDKs keep working within a major version of the ABI.

use crate::world::{AMPLE, Folder, RUNNERS, Remembering, request};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vnfm_core::ports::MgmtDrivers as _;

/// Those for this machine, oldest first.
fn released() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let ending = format!("-{}.so", std::env::consts::ARCH);
    let mut ours: Vec<_> = files
        .filter(|path| path.to_str().is_some_and(|path| path.ends_with(&ending)))
        .collect();
    ours.sort();
    ours
}

#[tokio::test]
async fn libraries_of_all_released_sdks_work() {
    let libraries = released();
    assert!(
        !libraries.is_empty() || std::env::consts::ARCH != "x86_64",
        "they are gone"
    );
    for library in libraries {
        for runner in RUNNERS {
            let folder = Folder::new();
            folder.put(&library, "released.so");
            let plugins = folder.host_of(runner);
            let pin = plugins.allow("released.so").unwrap();
            let driver = plugins.resolve(&pin.name.as_str().into()).unwrap();
            assert!(driver.declaration().config_schema.is_some());
            let mut hook = request("instantiate_end", AMPLE);
            let params = json!({"sshCp": "CP1", "username": "u", "password": "p", "text": "hello"});
            hook.additional_params = serde_json::from_value(params).unwrap();
            let host = Arc::new(Remembering::default());
            let effects = driver.call(hook, host.clone()).await.unwrap();
            assert_eq!(effects.metadata["welcomed"], 1, "{}", library.display());
            let services = ["progress", "ssh.wait", "ssh.put", "ssh.run", "progress"];
            assert_eq!(host.services(), services, "{}", library.display());
        }
    }
}
