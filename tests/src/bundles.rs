//! A site without internet access: server, plugin, an image and both packages of the scenario come from one bundle.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::programs::{Server, program};
use crate::sources;
use crate::testbed::{Testbed, VNF_A, VNF_B};

const SAMPLE_A: &str = "vnf-a-k8s-cluster";
const SAMPLE_B: &str = "vnf-b-cnf";

/// A site that has installed its bundle.
#[derive(Debug)]
pub struct Site {
    /// Its server, which is the installed program.
    pub testbed: Testbed,
    /// Ids of the onboarded packages, by sample.
    packages: BTreeMap<String, String>,
    bundle: PathBuf,
    /// The folder with the installed images.
    pub images: PathBuf,
    /// Certificate of the bundle's signer.
    trust: PathBuf,
}

impl Site {
    /// Creates a bundle with both packages, installs it into empty folders, and starts the installed server for this cloud.
    pub fn install(folder: TempDir, clouds: &Path, ssh_port: u64) -> Self {
        let samples = sources::root().join("vnfd-samples");
        let packages = [SAMPLE_A, SAMPLE_B].map(|sample| samples.join(sample));
        let register = |server, folder| Testbed::with(server, folder, clouds, ssh_port);
        Self::install_these(folder, (&packages, &[]), register)
    }

    /// The same, with these packages, and these images in addition; `register` gives the installed server its VIM.
    pub fn install_these(
        folder: TempDir,
        contents: (&[PathBuf], &[PathBuf]),
        register: impl FnOnce(Server, TempDir) -> Testbed,
    ) -> Self {
        let path = |name: &str| folder.path().join(name);
        let (bundle, trust) = create(&path("vendor"), contents);
        let (bin, plugins, images) = (path("bin"), path("data/plugins"), path("images"));
        let mut install = vec!["bundle", "install", text(&bundle), "--trust", text(&trust)];
        let only = ["binary", "plugin", "image"];
        install.extend(only.iter().flat_map(|kind| ["--only", kind]));
        install.extend(["--binaries", text(&bin), "--plugins", text(&plugins)]);
        install.extend(["--images", text(&images)]);
        vnfmctl(&install);
        assert!(images.join("web/oci-layout").is_file());
        let runner = std::env::var("VNFM_TEST_RUNNER").ok();
        let executable = bin.join("vnfm-server");
        let server = Server::start_installed(&executable, folder.path(), "info", runner.as_deref());
        let mut site = Self {
            testbed: register(server, folder),
            packages: BTreeMap::new(),
            bundle,
            images,
            trust,
        };
        let rows = site.install_packages();
        assert!(
            rows.iter().all(|row| row["state"] == "installed"),
            "{rows:?}"
        );
        let named = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
        site.packages = rows
            .iter()
            .map(|row| (named(row, "name"), named(row, "where")))
            .collect();
        site
    }

    /// The id of the onboarded package of VNF-A.
    pub fn package_a(&self) -> &str {
        &self.packages[SAMPLE_A]
    }

    /// Installs the packages of the bundle; the rows of the result.
    pub fn install_packages(&self) -> Vec<Value> {
        let (bundle, trust) = (text(&self.bundle), text(&self.trust));
        let install = [
            "bundle", "install", bundle, "--trust", trust, "--only", "package",
        ];
        let rows = self.testbed.server.ctl(&install);
        rows.as_array().unwrap().clone()
    }

    /// Instantiates VNF-A, and VNF-B on its cluster, and removes both.
    pub fn run_scenario(&self) {
        let testbed = &self.testbed;
        let (_, request) = testbed.create_a_from(&self.packages[SAMPLE_A], SAMPLE_A);
        testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
        let cluster = testbed.assert_a_up(3);
        self.run_b(&cluster);
        testbed.terminate_and_delete(VNF_B);
        testbed.terminate_and_delete(VNF_A);
        testbed.finish();
    }

    /// Instantiates VNF-B on the cluster of VNF-A.
    pub fn run_b(&self, cluster: &str) {
        let request = self
            .testbed
            .create_b_from(&self.packages[SAMPLE_B], cluster);
        let op = self.testbed.instantiate(VNF_B, &request);
        self.testbed.wait_for_state(&op, "COMPLETED");
        self.testbed.assert_b_up();
    }
}

/// Creates a bundle in `folder` with these packages and images; its path, and that of the signer's certificate.
fn create(folder: &Path, (packages, images): (&[PathBuf], &[PathBuf])) -> (PathBuf, PathBuf) {
    fs::create_dir_all(folder).unwrap();
    let signer = rcgen::generate_simple_self_signed(vec!["vendor.example".to_owned()]).unwrap();
    let (key, cert) = (folder.join("key.pem"), folder.join("cert.pem"));
    fs::write(&key, signer.signing_key.serialize_pem()).unwrap();
    fs::write(&cert, signer.cert.pem()).unwrap();
    let image = image(&folder.join("web"));
    let mut contents = vec![
        ("--binary", program("vnfm-server")),
        ("--plugin", program("libkubernetes_cluster.so")),
        ("--image", image),
    ];
    contents.extend(images.iter().map(|path| ("--image", path.clone())));
    contents.extend(packages.iter().map(|path| ("--package", path.clone())));
    let bundle = folder.join("site.bundle");
    let mut create = vec!["bundle", "create", text(&bundle)];
    create.extend(contents.iter().flat_map(|(flag, path)| [*flag, text(path)]));
    create.extend(["--key", text(&key), "--cert", text(&cert)]);
    vnfmctl(&create);
    (bundle, cert)
}

/// An image in OCI image layout, without layers.
fn image(folder: &Path) -> PathBuf {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let blob = |kind: &str, content: &Value| {
        let content = content.to_string();
        let digest = format!("{:x}", Sha256::digest(&content));
        fs::write(blobs.join(&digest), &content).unwrap();
        let media_type = format!("application/vnd.oci.image.{kind}.v1+json");
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len()})
    };
    let config = blob("config", &json!({"architecture": "amd64", "os": "linux"}));
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": []});
    let index = json!({"schemaVersion": 2, "manifests": [blob("manifest", &manifest)]});
    fs::write(folder.join("index.json"), index.to_string()).unwrap();
    fs::write(
        folder.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )
    .unwrap();
    folder.to_owned()
}

/// Runs `vnfmctl` without a server.
pub fn vnfmctl(words: &[&str]) {
    let output = Command::new(program("vnfmctl"))
        .args(words)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "vnfmctl {words:?}: {errors}");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
