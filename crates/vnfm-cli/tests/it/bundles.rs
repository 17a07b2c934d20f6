//! `vnfmctl bundle`: creation, verification, installation and its repetition, and what is refused.

use crate::stub::{Ended, Stub, ok, run};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;
use vnfm_signature::{Certificate, Key, Padding, Signing, signature_pem};

/// Path, type and content of an entry in a tar.
type Entry<'a> = (&'a str, EntryType, &'a [u8]);

const PACKAGES: &str = "/vnfpkgm/v2/vnf_packages";
/// SHA-256 of "hello".
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

/// A folder with what a bundle can contain, and two keys with their certificates.
struct Site(TempDir);

impl Site {
    fn new() -> Self {
        use mgmt_template as _;
        let site = Self(tempfile::tempdir().unwrap());
        for name in ["vendor", "stranger"] {
            let files = format!("-keyout {name}.key -out {name}.pem -subj /CN={name}");
            let key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30";
            site.command("openssl", &format!("{key} {files}"));
        }
        fs::write(site.path("helm"), "#!/bin/sh\n").unwrap();
        fs::write(site.path("big"), vec![7; 300_000]).unwrap();
        site.layout("web", b"layer");
        let built = std::env::current_exe().unwrap();
        let library = site.path("libmine.so");
        fs::copy(built.with_file_name("libmgmt_template.so"), &library).unwrap();
        fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).unwrap();
        site
    }

    /// An OCI image layout with one blob.
    fn layout(&self, name: &str, blob: &[u8]) {
        let blobs = self.path(name).join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        fs::write(
            self.path(name).join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )
        .unwrap();
        fs::write(
            self.path(name).join("index.json"),
            r#"{"schemaVersion":2,"manifests":[]}"#,
        )
        .unwrap();
        let file = self.path("blob");
        fs::write(&file, blob).unwrap();
        let sum = self.command("sha256sum", "blob");
        let sum = String::from_utf8(sum.stdout).unwrap();
        fs::rename(file, blobs.join(&sum[..64])).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, program: &str, line: &str) -> Output {
        let words = line.split_whitespace();
        let output = Command::new(program)
            .args(words)
            .current_dir(self.0.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{program} {line}: {output:?}");
        output
    }

    /// The words of a command line; `@name` stands for a path in the folder.
    fn words(&self, line: &str) -> Vec<String> {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.path(name).to_str().unwrap().to_owned(),
            None => word.to_owned(),
        };
        ["bundle"]
            .into_iter()
            .chain(line.split_whitespace())
            .map(word)
            .collect()
    }

    async fn bundle(&self, line: &str) -> Ended {
        let words = self.words(line);
        run(&words.iter().map(String::as_str).collect::<Vec<_>>(), "").await
    }

    async fn bundle_at(&self, stub: &Stub, line: &str) -> Ended {
        let words = self.words(line);
        stub.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
            .await
    }

    async fn done(&self, line: &str) -> Ended {
        let ended = self.bundle(line).await;
        assert_eq!(ended.code, 0, "{line}: {ended:?}");
        ended
    }

    /// Refused with exit code 1 and this text; nothing is in the folders.
    async fn refused(&self, line: &str, part: &str) {
        let ended = self.bundle(line).await;
        assert!(
            ended.code == 1 && ended.messages.contains(part),
            "{line}: no `{part}` in {ended:?}"
        );
        for folder in ["bin", "layouts", "lib"] {
            assert_eq!(self.names(folder), [""; 0], "{line}");
        }
    }

    /// The names in a folder, hidden ones included, sorted.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// A bundle with this index, signed as it is, and these entries.
    fn forge(&self, index: &Value, entries: &[Entry]) {
        let text = index.to_string();
        let read = |name: &str| fs::read(self.path(name)).unwrap();
        let key = Key::read(&read("vendor.key"), Padding::Pkcs1).unwrap();
        let chain = Certificate::read(&read("vendor.pem")).unwrap();
        let mut signing = Signing::new(&key, &chain);
        signing.write_all(text.as_bytes()).unwrap();
        let signature = signature_pem(&signing.finish(true).unwrap());
        let own = [
            ("index.json", EntryType::Regular, text.as_bytes()),
            ("index.cms", EntryType::Regular, signature.as_bytes()),
        ];
        let mut tar = Builder::new(fs::File::create(self.path("forged")).unwrap());
        for (path, kind, content) in own.iter().chain(entries) {
            let mut header = Header::new_ustar();
            // `set_path` refuses what is tested here.
            header.as_ustar_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            tar.append(&header, *content).unwrap();
        }
        tar.finish().unwrap();
    }
}

const CREATE: &str = "create @b --binary @helm --plugin @libmine.so --image @web --key @vendor.key --cert @vendor.pem";
const FOLDERS: &str = "--binaries @bin --plugins @lib --images @layouts";

fn install(file: &str) -> String {
    format!("install @{file} --trust @vendor.pem {FOLDERS}")
}

fn binary(path: &str, sha256: &str) -> Value {
    json!({"kind": "binary", "name": "tool", "files": [{"path": path, "size": 5, "sha256": sha256}]})
}

fn index(items: &[Value]) -> Value {
    json!({"schemaVersion": 1, "items": items})
}

/// The states in the table of an installation, by name.
fn states(ended: &Ended) -> Vec<(String, String)> {
    let rows: Vec<Value> =
        serde_json::from_str(&ended.data).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| (text(row, "kind"), text(row, "state")))
        .collect()
}

fn all(state: &str) -> Vec<(String, String)> {
    ["binary", "plugin", "image"]
        .map(|kind| (kind.to_owned(), state.to_owned()))
        .to_vec()
}

#[tokio::test]
async fn a_bundle_is_created_verified_installed_and_skipped_when_present() {
    let site = Site::new();
    site.done(CREATE).await;
    let shown = site.done("show @b").await.data;
    assert!(
        ["binary", "plugin", "image", "helm", "web"]
            .iter()
            .all(|word| shown.contains(word)),
        "{shown}"
    );
    let verified = site.done("verify @b --trust @vendor.pem").await;
    assert!(verified.data.contains("CN=vendor"), "{verified:?}");
    // Two widespread programs agree.
    site.command("tar", "xf b index.json index.cms");
    site.command(
        "openssl",
        "cms -verify -binary -inform PEM -in index.cms -content index.json -CAfile vendor.pem -purpose any -out /dev/null",
    );

    let install = format!("{} -o json", install("b"));
    let planned = site.done(&format!("{install} --dry-run")).await;
    assert_eq!(states(&planned), all("to be installed"));
    assert_eq!(site.names("bin"), [""; 0], "a dry run writes nothing");
    assert_eq!(states(&site.done(&install).await), all("installed"));
    assert_eq!(states(&site.done(&install).await), all("present"));

    let mode = |path: &str| site.path(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (
            mode("bin/helm"),
            mode("layouts/web"),
            mode("layouts/web/oci-layout")
        ),
        (0o755, 0o755, 0o644)
    );
    site.command("diff", "-r web layouts/web");
    assert_eq!(site.names("bin"), ["helm"]);
    assert_eq!(site.names("layouts"), ["web"]);
    let lock = fs::read_to_string(site.path("lib/plugins.lock")).unwrap();
    let lock: Value = serde_json::from_str(&lock).unwrap();
    let file = lock["plugins"][0]["file"].as_str().unwrap();
    assert_eq!(site.names("lib"), [file, "plugins.lock"]);
    assert_eq!(
        fs::read(site.path("lib").join(file)).unwrap(),
        fs::read(site.path("libmine.so")).unwrap()
    );

    // A damaged library is installed again, as its pin has the right hash.
    fs::write(site.path("lib").join(file), "damaged").unwrap();
    let repaired = states(&site.done(&install).await);
    assert_eq!(repaired[1], ("plugin".to_owned(), "installed".to_owned()));
}

#[tokio::test]
async fn another_version_is_replaced_on_request_only() {
    let site = Site::new();
    site.done(CREATE).await;
    fs::create_dir_all(site.path("bin")).unwrap();
    fs::write(site.path("bin/helm"), "older").unwrap();
    // A link must be neither followed nor taken for the file.
    std::os::unix::fs::symlink(site.path("web"), site.path("elsewhere")).unwrap();
    fs::create_dir_all(site.path("layouts")).unwrap();
    std::os::unix::fs::symlink(site.path("elsewhere"), site.path("layouts/web")).unwrap();
    let ended = site.bundle(&install("b")).await;
    assert_eq!(ended.code, 1, "{ended:?}");
    for part in ["binary `helm`", "image `web`", "--replace"] {
        assert!(ended.messages.contains(part), "{ended:?}");
    }
    assert_eq!(fs::read_to_string(site.path("bin/helm")).unwrap(), "older");
    assert_eq!(site.names("lib"), [""; 0], "a conflict stops everything");
    let replaced = site
        .done(&format!("{} --replace -o json", install("b")))
        .await;
    let states = states(&replaced);
    let of_kind = |kind: &str| {
        states
            .iter()
            .find(|(found, _)| found == kind)
            .unwrap()
            .1
            .clone()
    };
    assert_eq!(
        ["binary", "plugin", "image"].map(of_kind),
        ["replaced", "installed", "replaced"]
    );
    assert!(
        !site.path("layouts/web").is_symlink() && site.path("layouts/web/oci-layout").is_file()
    );
    assert_eq!(
        site.names("web"),
        ["blobs", "index.json", "oci-layout"],
        "what the link named is untouched"
    );
    assert_eq!(site.names("layouts"), ["web"], "nothing temporary is left");
}

#[tokio::test]
async fn who_signed_it_and_every_byte_are_checked_before_anything_is_installed() {
    let site = Site::new();
    site.done(CREATE).await;
    let stranger = install("b").replace("@vendor.pem", "@stranger.pem");
    site.refused(&stranger, "is not trusted").await;
    site.refused("verify @b --trust @stranger.pem", "is not trusted")
        .await;
    let good = fs::read(site.path("b")).unwrap();

    let at = good
        .windows(9)
        .position(|window| window == b"#!/bin/sh")
        .unwrap();
    let mut changed = good.clone();
    changed[at] = b'!';
    fs::write(site.path("changed"), changed).unwrap();
    site.refused(&install("changed"), "`binaries/helm` was changed")
        .await;

    let at = good
        .windows(7)
        .position(|window| window == b"\"helm\",")
        .unwrap();
    let mut renamed = good.clone();
    renamed[at + 1..at + 5].copy_from_slice(b"hela");
    fs::write(site.path("renamed"), renamed).unwrap();
    site.refused(&install("renamed"), "must not have a file at the path")
        .await;

    for length in [0, 100, 700, 2000, good.len() / 2, good.len() - 2000] {
        fs::write(site.path("short"), &good[..length]).unwrap();
        site.refused(&install("short"), "truncated").await;
    }
    fs::write(
        site.path("other"),
        "no bundle at all, but longer than one block".repeat(40),
    )
    .unwrap();
    site.refused(&install("other"), "not a valid bundle").await;

    site.command("tar", "xf b index.json binaries plugins images");
    site.command("tar", "cf unsigned index.json binaries plugins images");
    site.refused(&install("unsigned"), "index.cms").await;
}

/// The only file of a forged bundle.
const TOOL: Entry = ("binaries/tool", EntryType::Regular, b"hello");

#[tokio::test]
async fn a_signed_index_with_a_path_outside_its_folder_is_refused() {
    let site = Site::new();
    site.forge(&index(&[binary(TOOL.0, HELLO)]), &[TOOL]);
    site.done("verify @forged --trust @vendor.pem").await;
    for (kind, name, path) in [
        ("binary", "tool", "../tool"),
        ("binary", "tool", "/etc/tool"),
        ("binary", "tool", "binaries/../tool"),
        ("binary", "tool", "binaries/other"),
        ("binary", "tool", "plugins/tool"),
        ("plugin", "tool", "plugins/a/b.so"),
        ("image", "tool", "images/other/oci-layout"),
        ("image", "tool", "images/tool/../../x"),
        ("image", "tool", "images/tool/"),
    ] {
        let mut item = binary(path, HELLO);
        (item["kind"], item["name"]) = (json!(kind), json!(name));
        site.forge(&index(&[item]), &[(path, EntryType::Regular, b"hello")]);
        site.refused(&install("forged"), "must not have a file")
            .await;
    }
    for name in [".bashrc", "..", "a/b", "", "-rf"] {
        let path = format!("binaries/{name}");
        let mut item = binary(&path, HELLO);
        item["name"] = json!(name);
        site.forge(&index(&[item]), &[(&path, EntryType::Regular, b"hello")]);
        site.refused(&install("forged"), "not a valid name").await;
    }
}

#[tokio::test]
async fn a_signed_index_that_lies_is_refused() {
    let site = Site::new();
    let file = |n| json!({"path": format!("binaries/t{n}"), "size": 0, "sha256": HELLO});
    let item = |n| json!({"kind": "binary", "name": format!("t{n}"), "files": [file(n)]});
    let many: Vec<Value> = (0..10_001).map(item).collect();
    let changed = |pointer: &str, value: Value| {
        let mut index = index(&[binary(TOOL.0, HELLO)]);
        *index.pointer_mut(pointer).unwrap() = value;
        index
    };
    let mut unknown = binary(TOOL.0, HELLO);
    unknown["mode"] = json!("4755");
    let twice = [binary(TOOL.0, HELLO), binary(TOOL.0, HELLO)];
    let (hash, size) = ("/items/0/files/0/sha256", "/items/0/files/0/size");
    for (index, part) in [
        (changed(hash, json!(HELLO.replace('2', "3"))), "was changed"),
        (changed(hash, json!("2cf2")), "is not one"),
        (changed(size, json!(6)), "has 5 bytes; its index says 6"),
        (changed(size, json!(u64::MAX)), "larger than the bundle"),
        (changed("/items/0/files", json!([])), "has 0 files"),
        (changed("/schemaVersion", json!(2)), "schemaVersion 2"),
        (index(&twice), "two files have the path"),
        (index(&many), "at most 10000"),
        (index(&[]), "contains nothing"),
        (index(&[unknown]), "unknown field `mode`"),
        (json!("nothing"), "schemaVersion null"),
    ] {
        site.forge(&index, &[TOOL]);
        site.refused(&install("forged"), part).await;
    }
    // A library that declares something else than the index says.
    let library = fs::read(site.path("libmine.so")).unwrap();
    let sum = site.command("sha256sum", "libmine.so").stdout;
    let item = json!({"kind": "plugin", "name": "other", "version": "9", "files": [{"path": "plugins/other-9.so",
        "size": library.len(), "sha256": String::from_utf8_lossy(&sum[..64])}]});
    site.forge(
        &index(&[item]),
        &[("plugins/other-9.so", EntryType::Regular, &library)],
    );
    site.refused(&install("forged"), "declares `").await;
}

#[tokio::test]
async fn entries_other_than_the_files_of_the_index_are_refused() {
    use EntryType::{Char, GNULongName, Link, Regular, Symlink};
    let site = Site::new();
    let cases: [(&[Entry], &str); 7] = [
        (&[(TOOL.0, Symlink, b"hello")], "Symlink"),
        (&[(TOOL.0, Link, b"hello")], "Link"),
        (&[(TOOL.0, Char, b"hello")], "Char"),
        (&[(TOOL.0, GNULongName, b"hello")], "GNULongName"),
        (
            &[("binaries/other", Regular, b"hello")],
            "in place of the file",
        ),
        (
            &[TOOL, ("binaries/more", Regular, b"hello")],
            "its index does not name",
        ),
        (&[], "is missing"),
    ];
    for (entries, part) in cases {
        site.forge(&index(&[binary(TOOL.0, HELLO)]), entries);
        site.refused(&install("forged"), part).await;
    }
}

#[tokio::test]
async fn an_installation_that_fills_the_disk_leaves_nothing_incomplete_and_resumes() {
    let site = Site::new();
    let create = "create @b --binary @helm --binary @big --key @vendor.key --cert @vendor.pem";
    site.done(create).await;
    let words = site.words(&install("b"));
    // No file may be larger than 100 blocks of 1 KiB, as on a full disk.
    let limited = Command::new("bash")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_vnfmctl"),
        ])
        .args(&words)
        .output()
        .unwrap();
    let messages = String::from_utf8(limited.stderr).unwrap();
    assert_eq!(limited.status.code(), Some(1), "{messages}");
    for part in ["`binaries/big`", "run the command again"] {
        assert!(messages.contains(part), "{messages}");
    }
    assert_eq!(
        site.names("bin"),
        ["helm"],
        "nothing incomplete, nothing temporary"
    );
    let resumed = site.done(&format!("{} -o json", install("b"))).await;
    let states: Vec<_> = states(&resumed)
        .into_iter()
        .map(|(_, state)| state)
        .collect();
    assert_eq!(states, ["present", "installed"]);
}

/// A server that has onboarded this package.
async fn server(onboarded: &Value) -> Stub {
    let record = json!({"id": "p-1", "vnfProductName": "Web", "vnfdId": "v-1", "onboardingState": "ONBOARDED"});
    Stub::new([
        (&*format!("GET {PACKAGES}?all_fields"), ok(onboarded)),
        (&*format!("POST {PACKAGES}"), ok(&json!({"id": "p-1"}))),
        (
            &*format!("PUT {PACKAGES}/p-1/package_content"),
            ok(&json!({})),
        ),
        (&*format!("GET {PACKAGES}/p-1"), ok(&record)),
    ])
    .await
}

/// Creates a bundle with a binary and VNF-B; the package's entry in `bundle show`.
async fn with_package(site: &Site) -> Value {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples/vnf-b-cnf");
    let package = format!("--package {}", sample.display());
    let create = "--binary @helm --key @vendor.key --cert @vendor.pem";
    site.done(&format!("create @b {create} {package}")).await;
    site.refused(
        &format!("create @c {create} {package} {package}"),
        "two files have the path",
    )
    .await;
    let shown: Value = serde_json::from_str(&site.done("show @b -o json").await.data).unwrap();
    shown[1].clone()
}

#[tokio::test]
async fn packages_are_onboarded_once() {
    let site = Site::new();
    let sha256 = with_package(&site).await["sha256"].take();
    let install = format!("{} --only package -o json", install("b"));
    let empty = server(&json!([])).await;
    let installed = site.bundle_at(&empty, &install).await;
    let state = |state: &str| [("package".to_owned(), state.to_owned())];
    assert_eq!(states(&installed), state("installed"));
    let is = |method: &str, stub: &Stub| {
        stub.requests()
            .iter()
            .any(|request| request.target.starts_with(method))
    };
    assert!(is("PUT", &empty));

    let record = json!({"id": "p-1", "onboardingState": "ONBOARDED", "checksum": {"hash": sha256}});
    let full = server(&json!([record])).await;
    assert_eq!(
        states(&site.bundle_at(&full, &install).await),
        state("present")
    );
    assert!(!is("POST", &full));
}

#[tokio::test]
async fn the_server_is_compared_before_anything_is_installed() {
    let site = Site::new();
    let vnfd_id = with_package(&site).await["vnfdId"].take();
    let install = install("b");
    let unreachable = site
        .bundle(&format!("{install} --server http://127.0.0.1:1"))
        .await;
    assert_eq!(unreachable.code, 4, "{unreachable:?}");
    assert!(
        unreachable.messages.contains("--only binary"),
        "{unreachable:?}"
    );
    let record = json!({"id": "p-9", "vnfdId": vnfd_id, "onboardingState": "ONBOARDED", "checksum": {"hash": "00"}});
    let other = server(&json!([record])).await;
    let conflict = site
        .bundle_at(&other, &format!("{install} --replace"))
        .await;
    assert!(
        conflict.code == 1 && conflict.messages.contains("p-9"),
        "{conflict:?}"
    );
    assert_eq!(site.names("bin"), [""; 0]);
}

#[tokio::test]
async fn what_cannot_be_bundled_is_refused_at_creation() {
    let site = Site::new();
    let keys = "--key @vendor.key --cert @vendor.pem";
    let blob = site.names("web/blobs/sha256").remove(0);
    for (line, part) in [
        (format!("create @b {keys}"), "would be empty"),
        (
            format!("create @b {keys} --image @bin"),
            "not an OCI image layout",
        ),
        (format!("create @b {keys} --binary @missing"), "cannot read"),
        (
            format!("create @b {keys} --binary /dev/zero"),
            "is not a file",
        ),
        (
            format!("create @helm {keys} --binary @big"),
            "already exists",
        ),
        (
            "create @b --key @stranger.key --cert @vendor.pem --binary @helm".to_owned(),
            "does not match",
        ),
        ("install @b --trust @missing".to_owned(), "cannot read"),
    ] {
        site.refused(&line, part).await;
    }
    fs::write(site.path("web/blobs/sha256").join(blob), "damaged").unwrap();
    site.refused(&format!("create @b {keys} --image @web"), "is damaged")
        .await;
    std::os::unix::fs::symlink("/etc/passwd", site.path("web/link")).unwrap();
    site.refused(
        &format!("create @b {keys} --image @web"),
        "cannot be in a bundle",
    )
    .await;
    assert!(!site.path("b").exists());
    site.done(CREATE.replace("--image @web", "").as_str()).await;
    let folders = site
        .bundle("install @b --trust @vendor.pem --plugins @lib")
        .await;
    assert!(
        folders.code == 1 && folders.messages.contains("--binaries FOLDER"),
        "{folders:?}"
    );
}
