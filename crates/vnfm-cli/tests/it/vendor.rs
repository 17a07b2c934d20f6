//! `vnfmctl package init`, `build`, `sign`, `verify`, cross-checked with `openssl`.

use crate::stub::{Ended, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder with a copy of VNF-B (`web`), and a key with a self-signed certificate (`vendor`).
struct Workspace(TempDir);

impl Workspace {
    fn new() -> Self {
        let workspace = Self(tempfile::tempdir().unwrap());
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples/vnf-b-cnf");
        copy(&sample, &workspace.path("web"));
        workspace.certificate("vendor");
        workspace
    }

    fn certificate(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.pem -days 30 -subj /CN={name}"
        ))
        .unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, line: &str) -> Result<(), String> {
        let mut openssl = Command::new("openssl");
        openssl
            .args(line.split_whitespace())
            .current_dir(self.0.path());
        let output = openssl
            .output()
            .unwrap_or_else(|error| panic!("openssl: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// Runs `vnfmctl package …`; `@name` stands for a path in the folder.
    async fn package(&self, line: &str) -> Ended {
        let args: Vec<String> = line
            .split_whitespace()
            .map(|word| match word.strip_prefix('@') {
                Some(name) => self.path(name).to_str().unwrap().to_owned(),
                None => word.to_owned(),
            })
            .collect();
        let args: Vec<&str> = std::iter::once("package")
            .chain(args.iter().map(String::as_str))
            .collect();
        run(&args, "").await
    }

    async fn done(&self, line: &str) -> Ended {
        let ended = self.package(line).await;
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        ended
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn a_build_is_reproducible_and_has_every_hash() {
    let workspace = Workspace::new();
    workspace.done("build @web --out @one.csar").await;
    workspace.done("build @web --out @two.csar").await;
    assert_eq!(
        fs::read(workspace.path("one.csar")).unwrap(),
        fs::read(workspace.path("two.csar")).unwrap()
    );
    let package = vnfm_descriptor::Package::open(
        &workspace.path("one.csar"),
        &vnfm_descriptor::Limits::default(),
    )
    .unwrap();
    let manifest = package.manifest().unwrap();
    assert_eq!(
        manifest.sources.len(),
        package.paths().count() - 1,
        "all files except the manifest"
    );
    assert!(manifest.sources.iter().all(|source| source.hash.is_some()));
    let again = workspace.package("build @web --out @one.csar").await;
    assert!(
        again.code == 1 && again.messages.contains("already exists"),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_package_is_signed_and_verified_with_both_options() {
    let workspace = Workspace::new();
    let who = "--key @vendor.key --cert @vendor.pem";
    workspace
        .done(&format!("sign @web {who} --out @one.csar"))
        .await;
    workspace
        .done(&format!(
            "sign @web {who} --pss --separate-cert --out @separate.csar"
        ))
        .await;
    workspace.done("build @web --out @web.csar").await;
    workspace
        .done(&format!("sign @web.csar {who} --option 2 --out @whole.zip"))
        .await;
    for (package, how) in [
        ("one.csar", "RSA with SHA-256"),
        ("separate.csar", "RSA-PSS with SHA-256"),
        ("whole.zip", "RSA with SHA-256"),
    ] {
        let ended = workspace
            .done(&format!("verify @{package} --trust @vendor.pem"))
            .await;
        assert!(
            ended.data.contains("CN=vendor") && ended.data.contains(how),
            "{ended:?}"
        );
        assert_eq!(ended.messages, "", "{package}");
        let ended = workspace.done(&format!("verify @{package}")).await;
        assert!(ended.messages.contains("--trust"), "{ended:?}");
        let shown = workspace.done(&format!("show @{package}")).await;
        assert!(shown.data.contains("Web server"), "{shown:?}");
        let linted = run(&["lint", workspace.path(package).to_str().unwrap()], "").await;
        assert_eq!(
            (linted.code, linted.data.as_str()),
            (0, ""),
            "{package}: {linted:?}"
        );
    }
    workspace.certificate("stranger");
    let ended = workspace
        .package("verify @one.csar --trust @stranger.pem")
        .await;
    assert!(
        ended.code == 1 && ended.messages.contains("`CN=vendor` is not trusted"),
        "{ended:?}"
    );
    let ended = workspace.package("verify @web.csar").await;
    assert!(
        ended.code == 1 && ended.messages.contains("the package is not signed"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn openssl_verifies_our_signatures() {
    let workspace = Workspace::new();
    let who = "--key @vendor.key --cert @vendor.pem";
    workspace
        .done(&format!("sign @web {who} --out @one.csar"))
        .await;
    let one = vnfm_descriptor::Package::open(
        &workspace.path("one.csar"),
        &vnfm_descriptor::Limits::default(),
    )
    .unwrap();
    let text = one.read(&one.manifest().unwrap().path).unwrap();
    let at = text
        .windows(10)
        .position(|window| window == b"-----BEGIN")
        .unwrap();
    fs::write(workspace.path("content"), &text[..at]).unwrap();
    fs::write(workspace.path("signature"), &text[at..]).unwrap();
    let verify = "cms -verify -binary -inform PEM -in signature -CAfile vendor.pem -purpose any -out out -content";
    workspace.openssl(&format!("{verify} content")).unwrap();
    workspace.done("build @web --out @web.csar").await;
    workspace
        .done(&format!(
            "sign @web.csar {who} --option 2 --separate-cert --out @whole.zip"
        ))
        .await;
    let outer = vnfm_descriptor::SignedArchive::find(
        &workspace.path("whole.zip"),
        &vnfm_descriptor::Limits::default(),
    )
    .unwrap();
    fs::write(workspace.path("signature"), outer.signature().unwrap()).unwrap();
    workspace
        .openssl(&format!("{verify} web.csar -certfile vendor.pem"))
        .unwrap();
}

#[tokio::test]
async fn a_package_that_cannot_be_signed_is_reported_with_the_cause() {
    let workspace = Workspace::new();
    workspace.certificate("other");
    for (line, why) in [
        (
            "sign @web --key @other.key --cert @vendor.pem --out @a",
            "does not match the certificate `CN=vendor`",
        ),
        (
            "sign @web --key @vendor.pem --cert @vendor.pem --out @a",
            "holds no private key",
        ),
        (
            "sign @web --key @vendor.key --cert @vendor.key --out @a",
            "holds no certificate",
        ),
        (
            "sign @web --key @absent --cert @vendor.pem --out @a",
            "cannot read",
        ),
        (
            "sign @absent --key @vendor.key --cert @vendor.pem --out @a",
            "absent",
        ),
        (
            "sign @web --key @vendor.key --cert @vendor.pem --out @vendor.pem",
            "already exists",
        ),
    ] {
        let ended = workspace.package(line).await;
        assert!(
            ended.code == 1 && ended.messages.contains(why),
            "{line}: {ended:?}"
        );
        assert!(!workspace.path("a").exists(), "{line}");
    }
}

#[tokio::test]
async fn lint_reports_wrong_and_missing_signatures() {
    let workspace = Workspace::new();
    workspace
        .done("sign @web --key @vendor.key --cert @vendor.pem --out @one.csar")
        .await;
    let one = vnfm_descriptor::Package::open(
        &workspace.path("one.csar"),
        &vnfm_descriptor::Limits::default(),
    )
    .unwrap();
    let manifest = one.manifest().unwrap().path.clone();
    let text = String::from_utf8(one.read(&manifest).unwrap()).unwrap();
    let write = |name: &str, files: &[(&str, String)]| {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.clone().into_bytes()))
            .collect();
        vnfm_descriptor::repack(
            &one,
            &files,
            &mut fs::File::create(workspace.path(name)).unwrap(),
        )
        .unwrap();
    };
    write(
        "edited.csar",
        &[(&manifest, text.replace("vnfm samples", "vnfm  samples"))],
    );
    write("more.csar", &[("Scripts/more.sh", "true\n".to_owned())]);
    for (name, code, file) in [
        ("edited.csar", "W-SIGNATURE-WRONG", manifest.as_str()),
        ("more.csar", "W-SIGNATURE-GAP", "Scripts/more.sh"),
    ] {
        let linted = run(&["lint", workspace.path(name).to_str().unwrap()], "").await;
        assert_eq!(linted.code, 5, "{linted:?}");
        assert!(
            linted.data.contains(code) && linted.data.contains(file),
            "{linted:?}"
        );
    }
}

/// The SHA-256 of a file, as `openssl` computes it.
fn sha256(workspace: &Workspace, name: &str) -> String {
    workspace
        .openssl(&format!("dgst -sha256 -r -out digest {name}"))
        .unwrap();
    let text = fs::read_to_string(workspace.path("digest")).unwrap();
    text.split_whitespace().next().unwrap().to_owned()
}

#[tokio::test]
async fn signatures_are_verified_whatever_is_wrong_with_the_descriptor() {
    const DESCRIPTOR: &str = "web/Definitions/vnf-b.yaml";
    let workspace = Workspace::new();
    workspace.done("init @web").await;
    let old = sha256(&workspace, DESCRIPTOR);
    let text = fs::read_to_string(workspace.path(DESCRIPTOR)).unwrap();
    let broken = text.replace("flavour_id:", "flavor_id:");
    fs::write(workspace.path(DESCRIPTOR), &broken).unwrap();
    let manifest = fs::read_to_string(workspace.path("web/vnf-b.mf")).unwrap();
    let manifest = manifest.replace(&old, &sha256(&workspace, DESCRIPTOR));
    fs::write(workspace.path("web/vnf-b.mf"), &manifest).unwrap();
    workspace
        .openssl("cms -sign -binary -md sha256 -in web/vnf-b.mf -signer vendor.pem -inkey vendor.key -outform PEM -out cms")
        .unwrap();
    let cms = fs::read_to_string(workspace.path("cms")).unwrap();
    fs::write(workspace.path("web/vnf-b.mf"), manifest + &cms).unwrap();

    assert_eq!(workspace.package("show @web").await.code, 1);
    let verified = workspace.package("verify @web --trust @vendor.pem").await;
    assert_eq!(verified.code, 0, "{verified:?}");
    assert!(verified.data.contains("CN=vendor"), "{verified:?}");
    let web = workspace.path("web");
    let linted = run(&["lint", web.to_str().unwrap()], "").await;
    assert_eq!(linted.code, 6, "{linted:?}");
    assert!(!linted.data.contains("SIGNATURE"), "{linted:?}");

    fs::write(workspace.path(DESCRIPTOR), broken + "# edited\n").unwrap();
    let wrong = workspace.package("verify @web --trust @vendor.pem").await;
    assert!(
        wrong.code == 1 && wrong.messages.contains("E-MANIFEST-HASH"),
        "{wrong:?}"
    );
}

#[tokio::test]
async fn init_adds_missing_files_and_updates_hashes() {
    let workspace = Workspace::new();
    fs::remove_dir_all(workspace.path("web/TOSCA-Metadata")).unwrap();
    fs::remove_file(workspace.path("web/vnf-b.mf")).unwrap();
    let ended = workspace.done("init @web").await;
    assert!(
        ended
            .data
            .contains("TOSCA-Metadata/TOSCA.meta and vnf-b.mf"),
        "{ended:?}"
    );
    let linted = run(&["lint", workspace.path("web").to_str().unwrap()], "").await;
    assert_eq!((linted.code, linted.data.as_str()), (0, ""), "{linted:?}");
    let page = workspace.path("web/Files/kubernetes/page.yaml");
    let edited = fs::read_to_string(&page).unwrap() + "# edited\n";
    fs::write(&page, edited).unwrap();
    let wrong = workspace.package("show @web").await;
    assert!(
        wrong.code == 1 && wrong.messages.contains("E-MANIFEST-HASH"),
        "{wrong:?}"
    );
    workspace.done("init @web").await;
    workspace.done("show @web").await;
    // An invalid package is left unchanged.

    let before = fs::read_to_string(workspace.path("web/vnf-b.mf")).unwrap();
    fs::write(
        workspace.path("web/Definitions/vnf-b.yaml"),
        "topology_template: {}\n",
    )
    .unwrap();
    assert_eq!(workspace.package("init @web").await.code, 1);
    assert_eq!(
        fs::read_to_string(workspace.path("web/vnf-b.mf")).unwrap(),
        before
    );
    fs::create_dir(workspace.path("empty")).unwrap();
    let empty = workspace.package("init @empty").await;
    assert!(
        empty.code == 1 && empty.messages.contains("--entry"),
        "{empty:?}"
    );
}
