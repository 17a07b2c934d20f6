//! Releases of VNF-A with software for its nodes, for the simulated and the real tier: an agent that a script installs on all
//! nodes, and a proxy in an archive for the workers.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::sources::copy;

/// Installs the agent, which is a single file.
const SCRIPT: &str = "#!/bin/sh\necho installing $NAME $VERSION on $NODE_NAME\ninstall -m 0755 $ARTIFACT /usr/local/bin/edge-agent\n";
/// Installs the proxy, out of its archive, unless the host has a file that refuses this version.
const SCRIPT_OF_ARCHIVE: &str = "[ ! -e /etc/edge-proxy-not-$VERSION ] || { echo this host takes no $VERSION >&2; exit 7; }\n\
install -m 0755 edge-proxy /usr/local/bin/edge-proxy\n";

/// A copy of a sample in this folder whose package has the software in this version.
pub fn package(sample: &str, folder: &Path, version: &str) -> String {
    let package = copy(sample, folder);
    let software = package.join("Files/software");
    std::fs::create_dir_all(&software).unwrap();
    let program = format!("#!/bin/sh\necho {version}\n");
    std::fs::write(software.join(format!("edge-agent-{version}")), &program).unwrap();
    std::fs::write(software.join("install"), SCRIPT).unwrap();
    let content = tempfile::tempdir().unwrap();
    std::fs::write(content.path().join("edge-proxy"), &program).unwrap();
    std::fs::write(content.path().join("install.sh"), SCRIPT_OF_ARCHIVE).unwrap();
    let archive = format!("edge-proxy-{version}.tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("-czf")
        .arg(software.join(&archive))
        .arg("-C")
        .arg(content.path())
        .arg(".");
    assert!(tar.status().unwrap().success());
    let manifest = package.join("vnf-a.mf");
    let listed = [
        format!("edge-agent-{version}"),
        "install".to_owned(),
        archive,
    ];
    let lines = listed.map(|file| format!("Source: Files/software/{file}\n"));
    let text = std::fs::read_to_string(&manifest).unwrap() + &lines.concat();
    std::fs::write(manifest, text).unwrap();
    package.to_str().unwrap().to_owned()
}

/// The agent in this version, as a member of `node_software`.
pub fn agent(version: &str) -> Value {
    json!({ "name": "edge-agent", "version": version, "artifact": format!("Files/software/edge-agent-{version}"),
        "install": "Files/software/install" })
}

/// The proxy in this version.
pub fn proxy(version: &str) -> Value {
    json!({ "name": "edge-proxy", "version": version, "roles": ["worker"],
        "artifact": format!("Files/software/edge-proxy-{version}.tar.gz") })
}

/// `additionalParams` that want this software.
pub fn params(software: &[Value]) -> Value {
    json!({ "k8s_cluster_installation_param": { "node_software": software } })
}
