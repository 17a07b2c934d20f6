//! Neighbours, data and programs that a test needs and a machine may lack.
//!
//! A test that cannot run prints `skipped: why`, which `cargo xtask test` counts;
//! with `VNFM_REQUIRE_LIVE=1` it fails instead.

use std::path::{Path, PathBuf};

/// The file or folder that an environment variable names; otherwise the test is skipped.
///
/// ```text
/// VNFM_LIVE_OPENSTACK    clouds.yaml with the clouds `nfv` and `admin`
/// VNFM_LIVE_KUBECONFIG   a control plane without workers, with simulated nodes
/// VNFM_LIVE_HOSTS        the hosts behind the servers: `<name>/known_hosts`, `console.log`, …
/// VNFM_LIVE_KEYCLOAK     a folder with a distribution of Keycloak, for Java 17 or newer
/// VNFM_LIVE_SCHEMATHESIS its program
/// VNFM_LIVE_SUSHY        the folder with the program `sushy-emulator` (`tests/stack/redfish.sh` installs it)
/// VNFM_LIVE_ASSETS       Kubernetes binaries      VNFM_LIVE_IMAGES   images built from them
/// ```
///
/// # Panics
/// When it is absent and `VNFM_REQUIRE_LIVE=1`.
#[must_use]
pub fn neighbour(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.exists());
    if found.is_none() {
        skip(&format!(
            "`{variable}` names no existing file or folder (`cargo xtask stack up` prints it)"
        ));
    }
    found
}

/// The same for neighbours outside the real stack: their absence is printed, and is never a failure.
#[must_use]
pub fn optional_neighbour(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: `{variable}` names no existing file or folder (see CONTRIBUTING.md)");
    }
    found
}

/// The official API files, type definitions and schemas: `VNFM_SOL_DATA`, else next to the checkout.
///
/// # Panics
/// When they are absent and `VNFM_REQUIRE_LIVE=1`.
#[must_use]
pub fn sol_data() -> Option<PathBuf> {
    let default_folder = || crate::sources::root().join("../shared/sol");
    let folder = std::env::var_os("VNFM_SOL_DATA").map_or_else(default_folder, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    skip(&format!(
        "no official SOL files in `{}`; name their folder in VNFM_SOL_DATA",
        folder.display()
    ));
    None
}

/// A program that a test needs.
///
/// # Panics
/// When it is absent and `VNFM_REQUIRE_LIVE=1`.
#[must_use]
pub fn program<'a>(path: &'a str, package: &str) -> Option<&'a Path> {
    let found = Some(Path::new(path)).filter(|path| path.is_file());
    if found.is_none() {
        skip(&format!("no `{path}` (Debian: apt-get install {package})"));
    }
    found
}

/// Prints why a test is skipped.
///
/// # Panics
/// If `VNFM_REQUIRE_LIVE=1` forbids to skip tests.
pub fn skip(why: &str) {
    assert!(
        std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
        "cannot run, and VNFM_REQUIRE_LIVE=1: {why}"
    );
    eprintln!("skipped: {why}");
}
