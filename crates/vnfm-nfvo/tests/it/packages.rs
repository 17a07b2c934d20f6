//! Packages of the NFVO: lookup, download with interruptions, checksum, and every kind of failure.

use crate::{NoSleep, address, basic, world};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use vnfm_core::ports::PortError;
use vnfm_nfvo::{Login, PackageSource, Tls};
use vnfm_sim::World;
use vnfm_sim::faults::{Fault, Rule, When};
use vnfm_sim::nfvo::{Policy, RequiredLogin};
use vnfm_types::Secret;

const ARCHIVE_BYTES: usize = 300_000;
const MAX_BYTES: u64 = 1 << 20;

/// Bytes without repetition, which need not be an archive.
fn content() -> Vec<u8> {
    (0..ARCHIVE_BYTES)
        .map(|n| u8::try_from(n * 7 / 3 % 251).unwrap())
        .collect()
}

/// A world whose NFVO has a package, a client for it, and a folder for downloads.
struct Fixture {
    world: World,
    source: PackageSource,
    folder: TempDir,
}

impl Fixture {
    async fn new(login: RequiredLogin) -> Self {
        let world = world(login).await;
        world.nfvo().onboard("p1", "vnfd-1", content());
        let given = if login == RequiredLogin::None {
            Login::None
        } else {
            basic()
        };
        let source = source(world.nfvo().url(), given);
        Self {
            world,
            source,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn to(&self) -> PathBuf {
        self.folder.path().join("p1.csar")
    }

    async fn fetch(&self) -> Result<(), PortError> {
        let package = self.source.find_by_vnfd("vnfd-1").await?;
        package.usable()?;
        self.source.fetch(&package, MAX_BYTES, &self.to()).await
    }

    /// Checks that fetching fails with this code and text, and leaves no file.
    async fn assert_fetch_fails(&self, code: &str, text: &str) {
        let error = self.fetch().await.unwrap_err();
        assert_eq!(error.name(), code, "{error}");
        assert!(error.to_string().contains(text), "`{error}` lacks `{text}`");
        assert!(!self.to().exists(), "{code}: a file is left");
    }

    /// The requested ranges, in order.
    fn ranges(&self) -> Vec<String> {
        let calls = self.world.ledger().calls_named("nfvo.package_content");
        calls
            .iter()
            .map(|call| call.subject.trim_start_matches("p1").trim().to_owned())
            .collect()
    }

    fn override_package(&self, package: Value) {
        self.world.nfvo().set_policy(Policy {
            package,
            ..Policy::default()
        });
    }

    fn arm(&self, rule: Rule) {
        self.world.faults().add(rule);
    }
}

fn source(url: &str, login: Login) -> PackageSource {
    let address = address(url, login, Tls::default());
    PackageSource::new(address, NoSleep::new()).unwrap()
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[tokio::test]
async fn a_package_is_found_by_its_vnfd_and_fetched() {
    let fixture = Fixture::new(RequiredLogin::Basic).await;
    fixture.fetch().await.unwrap();
    assert!(read(&fixture.to()) == content());
    assert_eq!(fixture.ranges(), [""]);
    let calls = fixture.world.ledger().calls_named("nfvo.packages");
    assert_eq!(calls[0].subject, "(eq,vnfdId,vnfd-1)");
    let none = fixture
        .source
        .find_by_vnfd("it's, none)")
        .await
        .unwrap_err();
    assert_eq!(none.name(), "nfvo.no-package", "{none}");
    assert_eq!(
        fixture.source.package("p1").await.unwrap().unwrap().id,
        "p1"
    );
    assert_eq!(fixture.source.package("p2").await.unwrap(), None);
    assert_eq!(fixture.world.ledger().violations(), [""; 0]);
}

#[tokio::test]
async fn an_interrupted_download_fetches_only_the_rest() {
    let fixture = Fixture::new(RequiredLogin::None).await;
    fixture.arm(Rule {
        times: 2,
        ..Rule::new(
            "nfvo.package_content",
            Fault::CutAfter { cut_after: 100_000 },
        )
    });
    fixture.fetch().await.unwrap();
    assert!(read(&fixture.to()) == content());
    // Each request starts where the previous one broke off.
    let ranges = fixture.ranges();
    let begins = |range: &String| -> usize {
        let number = range.trim_start_matches("bytes=").trim_end_matches('-');
        number.parse().unwrap_or(0)
    };
    let begins: Vec<usize> = ranges.iter().map(begins).collect();
    assert_eq!(begins, [0, 100_000, 200_000], "{ranges:?}");
}

#[tokio::test]
async fn a_file_that_changes_during_the_download_is_fetched_from_the_start() {
    let fixture = Fixture::new(RequiredLogin::None).await;
    let package = fixture.source.find_by_vnfd("vnfd-1").await.unwrap();
    fixture.arm(Rule::new(
        "nfvo.package_content",
        Fault::CutAfter { cut_after: 100_000 },
    ));
    let to = fixture.to();
    let first = fixture.source.fetch(&package, MAX_BYTES, &to);
    let other: Vec<u8> = content().into_iter().rev().collect();
    // The file is replaced during the first request: its tag differs, so the second one returns the complete file.
    let replaced = async {
        while fixture
            .world
            .ledger()
            .calls_named("nfvo.package_content")
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
        fixture.world.nfvo().onboard("p1", "vnfd-1", other.clone());
    };
    let (fetched, ()) = tokio::join!(first, replaced);
    let error = fetched.unwrap_err();
    assert_eq!(
        error.name(),
        "nfvo.package-checksum",
        "it is not the file with the stated checksum: {error}"
    );
    fixture.fetch().await.unwrap();
    assert!(read(&fixture.to()) == other);
}

#[tokio::test]
async fn temporary_failures_are_retried_and_permanent_ones_reported() {
    let fixture = Fixture::new(RequiredLogin::None).await;
    let content = "nfvo.package_content";
    fixture.arm(Rule {
        times: 2,
        ..Rule::new(content, Fault::Status { status: 503 })
    });
    fixture.fetch().await.unwrap();
    fixture.arm(Rule {
        times: 2,
        ..Rule::new(content, Fault::Drop { drop: When::Before })
    });
    fixture.fetch().await.unwrap();
    for (fault, code, text) in [
        (Fault::Status { status: 503 }, "download.failing", "503"),
        (
            Fault::Drop { drop: When::Before },
            "download.unreachable",
            "0 bytes were received",
        ),
        (
            Fault::CutAfter { cut_after: 0 },
            "download.cut",
            "0 bytes were received",
        ),
        (Fault::Status { status: 404 }, "download.refused", "404"),
        (
            Fault::Status { status: 302 },
            "download.refused",
            "redirects are not followed",
        ),
        (Fault::Status { status: 204 }, "download.malformed", "204"),
    ] {
        let _ = std::fs::remove_file(fixture.to());
        fixture.world.faults().clear();
        fixture.arm(Rule {
            times: 99,
            ..Rule::new(content, fault.clone())
        });
        let error = fixture.fetch().await.unwrap_err();
        assert_eq!(error.name(), code, "{fault:?}: {error}");
        let later = matches!(
            code,
            "download.failing" | "download.unreachable" | "download.cut"
        );
        assert_eq!(error.is_unavailable(), later, "{fault:?}");
        fixture.assert_fetch_fails(code, text).await;
    }
}

#[tokio::test]
async fn an_invalid_package_record_is_rejected() {
    let fixture = Fixture::new(RequiredLogin::None).await;
    for (package, code, text) in [
        (
            json!({"checksum": {"hash": "0".repeat(64)}}),
            "nfvo.package-checksum",
            "the stated one 000",
        ),
        (
            json!({"checksum": null}),
            "nfvo.package-malformed",
            "`checksum` is missing",
        ),
        (
            json!({"checksum": {"algorithm": "MD5"}}),
            "nfvo.package-malformed",
            "SHA-256",
        ),
        (json!({"id": null}), "nfvo.package-malformed", "id"),
        (
            json!({"operationalState": "MAYBE"}),
            "nfvo.package-malformed",
            "operationalState",
        ),
        (
            json!({"operationalState": "DISABLED"}),
            "nfvo.package-disabled",
            "DISABLED",
        ),
        (
            json!({"onboardingState": "PROCESSING"}),
            "nfvo.package-not-onboarded",
            "PROCESSING",
        ),
        (json!({"vnfdId": "another"}), "nfvo.no-package", "vnfd-1"),
    ] {
        fixture.override_package(package);
        fixture.assert_fetch_fails(code, text).await;
    }
    fixture.override_package(Value::Null);
    let package = fixture.source.find_by_vnfd("vnfd-1").await.unwrap();
    let error = fixture
        .source
        .fetch(&package, 1000, &fixture.to())
        .await
        .unwrap_err();
    assert_eq!(error.name(), "download.too-large", "{error}");
    assert!(!fixture.to().exists());
}

#[tokio::test]
async fn an_unavailable_rejecting_or_silent_nfvo_is_reported_as_such() {
    let fixture = Fixture::new(RequiredLogin::Basic).await;
    for (status, code, later) in [
        (503, "nfvo.failing", true),
        (429, "nfvo.failing", true),
        (400, "nfvo.packages-refused", false),
    ] {
        fixture.arm(Rule::new("nfvo.packages", Fault::Status { status }));
        let error = fixture.source.find_by_vnfd("vnfd-1").await.unwrap_err();
        assert_eq!(
            (error.name(), error.is_unavailable()),
            (code, later),
            "{error}"
        );
    }
    fixture.arm(Rule::new("nfvo.packages", Fault::Hang { hang: true }));
    let impatient = PackageSource::new(
        vnfm_nfvo::NfvoAddress {
            time: Duration::from_millis(200),
            ..address(fixture.world.nfvo().url(), basic(), Tls::default())
        },
        NoSleep::new(),
    );
    let error = impatient.unwrap().find_by_vnfd("vnfd-1").await.unwrap_err();
    assert_eq!(error.name(), "nfvo.unreachable", "{error}");
    let anonymous = source(fixture.world.nfvo().url(), Login::None);
    let error = anonymous.find_by_vnfd("vnfd-1").await.unwrap_err();
    assert_eq!(error.name(), "nfvo.packages-refused", "{error}");
    assert!(error.to_string().contains("401"), "{error}");
}

#[tokio::test]
async fn a_subscription_is_created_read_and_deleted() {
    let fixture = Fixture::new(RequiredLogin::None).await;
    let (callback, password) = (
        "http://127.0.0.1:9/notifications
",
        Secret::new("planted-callback"),
    );
    let subscribe = || fixture.source.subscribe(callback, ("nfvo", &password));
    let (one, two) = (subscribe().await.unwrap(), subscribe().await.unwrap());
    assert!(fixture.source.is_subscribed(&one).await.unwrap());
    let other = fixture
        .source
        .subscribe("http://127.0.0.1:9/other", ("nfvo", &password))
        .await;
    fixture.source.unsubscribe(callback).await.unwrap();
    for id in [&one, &two] {
        assert!(!fixture.source.is_subscribed(id).await.unwrap(), "{id}");
    }
    assert!(
        fixture.source.is_subscribed(&other.unwrap()).await.unwrap(),
        "only our own are deleted"
    );
    fixture.arm(Rule::new("nfvo.subscribe", Fault::Status { status: 500 }));
    let error = subscribe().await.unwrap_err();
    assert_eq!(error.name(), "nfvo.failing", "{error}");
    assert!(!format!("{error:?}").contains("planted"), "{error:?}");
}
