//! The NFVO as a source of packages: found, fetched in however many pieces, compared; and every way in which it is not.

use crate::{Hurried, address, basic, world};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use vnfm_core::ports::PortError;
use vnfm_nfvo::{Login, PackageSource, Tls};
use vnfm_sim::World;
use vnfm_sim::faults::{Fault, Rule, When};
use vnfm_sim::nfvo::{Policy, Wanted};
use vnfm_types::Secret;

const MANY: usize = 300_000;
const MOST: u64 = 1 << 20;

/// What is no archive, and different everywhere.
fn content() -> Vec<u8> {
    (0..MANY)
        .map(|n| u8::try_from(n * 7 / 3 % 251).unwrap())
        .collect()
}

/// A world whose NFVO has a package, a client of it, and a place for what comes.
struct Scene {
    world: World,
    source: PackageSource,
    folder: TempDir,
}

impl Scene {
    async fn new(login: Wanted) -> Self {
        let world = world(login).await;
        world.nfvo().offer("p1", "vnfd-1", content());
        let given = if login == Wanted::None {
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

    async fn fetched(&self) -> Result<(), PortError> {
        let package = self.source.of_vnfd("vnfd-1").await?;
        package.usable()?;
        self.source.fetch(&package, MOST, &self.to()).await
    }

    /// It fails with this code and these words, and leaves no file.
    async fn fails(&self, code: &str, says: &str) {
        let error = self.fetched().await.unwrap_err();
        assert_eq!(error.name(), code, "{error}");
        assert!(error.to_string().contains(says), "`{error}` lacks `{says}`");
        assert!(!self.to().exists(), "{code}: something is left");
    }

    /// The ranges that were asked for.
    fn ranges(&self) -> Vec<String> {
        let calls = self.world.books().calls_of("nfvo.package_content");
        calls
            .iter()
            .map(|call| call.subject.trim_start_matches("p1").trim().to_owned())
            .collect()
    }

    fn says(&self, package: Value) {
        self.world.nfvo().set_policy(Policy {
            package,
            ..Policy::default()
        });
    }

    fn arm(&self, rule: Rule) {
        self.world.faults().arm(rule);
    }
}

fn source(url: &str, login: Login) -> PackageSource {
    let address = address(url, login, Tls::default());
    PackageSource::new(address, Hurried::new()).unwrap()
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[tokio::test]
async fn a_package_is_found_by_its_vnfd_and_fetched_whole() {
    let scene = Scene::new(Wanted::Basic).await;
    scene.fetched().await.unwrap();
    assert!(read(&scene.to()) == content());
    assert_eq!(scene.ranges(), [""]);
    let calls = scene.world.books().calls_of("nfvo.packages");
    assert_eq!(calls[0].subject, "(eq,vnfdId,vnfd-1)");
    let none = scene.source.of_vnfd("it's, none)").await.unwrap_err();
    assert_eq!(none.name(), "nfvo.no-package", "{none}");
    assert_eq!(scene.source.package("p1").await.unwrap().unwrap().id, "p1");
    assert_eq!(scene.source.package("p2").await.unwrap(), None);
    assert_eq!(scene.world.books().violations(), [""; 0]);
}

#[tokio::test]
async fn after_a_cut_the_rest_is_fetched_and_nothing_twice() {
    let scene = Scene::new(Wanted::None).await;
    scene.arm(Rule {
        times: 2,
        ..Rule::new(
            "nfvo.package_content",
            Fault::CutAfter { cut_after: 100_000 },
        )
    });
    scene.fetched().await.unwrap();
    assert!(read(&scene.to()) == content());
    // However much of what was sent arrives: each request begins where the last one broke off.
    let ranges = scene.ranges();
    let begins = |range: &String| -> usize {
        let number = range.trim_start_matches("bytes=").trim_end_matches('-');
        number.parse().unwrap_or(0)
    };
    let begins: Vec<usize> = ranges.iter().map(begins).collect();
    assert_eq!(begins, [0, 100_000, 200_000], "{ranges:?}");
}

#[tokio::test]
async fn another_file_under_the_same_name_is_begun_anew() {
    let scene = Scene::new(Wanted::None).await;
    let package = scene.source.of_vnfd("vnfd-1").await.unwrap();
    scene.arm(Rule::new(
        "nfvo.package_content",
        Fault::CutAfter { cut_after: 100_000 },
    ));
    let to = scene.to();
    let first = scene.source.fetch(&package, MOST, &to);
    let other: Vec<u8> = content().into_iter().rev().collect();
    // It is put there while the first half is on its way: the tag is another one, and all of it comes.
    let exchanged = async {
        while scene
            .world
            .books()
            .calls_of("nfvo.package_content")
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
        scene.world.nfvo().offer("p1", "vnfd-1", other.clone());
    };
    let (fetched, ()) = tokio::join!(first, exchanged);
    let error = fetched.unwrap_err();
    assert_eq!(
        error.name(),
        "nfvo.package-checksum",
        "it is not the one that was stated: {error}"
    );
    scene.fetched().await.unwrap();
    assert!(read(&scene.to()) == other);
}

#[tokio::test]
async fn what_fails_for_a_while_is_asked_again_and_what_fails_for_ever_is_given_up() {
    let scene = Scene::new(Wanted::None).await;
    let content = "nfvo.package_content";
    scene.arm(Rule {
        times: 2,
        ..Rule::new(content, Fault::Status { status: 503 })
    });
    scene.fetched().await.unwrap();
    scene.arm(Rule {
        times: 2,
        ..Rule::new(content, Fault::Drop { drop: When::Before })
    });
    scene.fetched().await.unwrap();
    for (fault, code, says) in [
        (Fault::Status { status: 503 }, "download.failing", "503"),
        (
            Fault::Drop { drop: When::Before },
            "download.unreachable",
            "0 bytes had come",
        ),
        (
            Fault::CutAfter { cut_after: 0 },
            "download.cut",
            "0 bytes had come",
        ),
        (Fault::Status { status: 404 }, "download.refused", "404"),
        (
            Fault::Status { status: 302 },
            "download.refused",
            "redirects are not followed",
        ),
        (Fault::Status { status: 204 }, "download.malformed", "204"),
    ] {
        let _ = std::fs::remove_file(scene.to());
        scene.world.faults().disarm();
        scene.arm(Rule {
            times: 99,
            ..Rule::new(content, fault.clone())
        });
        let error = scene.fetched().await.unwrap_err();
        assert_eq!(error.name(), code, "{fault:?}: {error}");
        let later = matches!(
            code,
            "download.failing" | "download.unreachable" | "download.cut"
        );
        assert_eq!(error.is_unavailable(), later, "{fault:?}");
        scene.fails(code, says).await;
    }
}

#[tokio::test]
async fn what_the_nfvo_says_has_to_be_so() {
    let scene = Scene::new(Wanted::None).await;
    for (package, code, says) in [
        (
            json!({"checksum": {"hash": "0".repeat(64)}}),
            "nfvo.package-checksum",
            "stated is 000",
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
        scene.says(package);
        scene.fails(code, says).await;
    }
    scene.says(Value::Null);
    let package = scene.source.of_vnfd("vnfd-1").await.unwrap();
    let error = scene
        .source
        .fetch(&package, 1000, &scene.to())
        .await
        .unwrap_err();
    assert_eq!(error.name(), "download.too-large", "{error}");
    assert!(!scene.to().exists());
}

#[tokio::test]
async fn an_nfvo_that_is_away_refuses_or_is_silent_is_told_as_that() {
    let scene = Scene::new(Wanted::Basic).await;
    for (status, code, later) in [
        (503, "nfvo.failing", true),
        (429, "nfvo.failing", true),
        (400, "nfvo.packages-refused", false),
    ] {
        scene.arm(Rule::new("nfvo.packages", Fault::Status { status }));
        let error = scene.source.of_vnfd("vnfd-1").await.unwrap_err();
        assert_eq!(
            (error.name(), error.is_unavailable()),
            (code, later),
            "{error}"
        );
    }
    scene.arm(Rule::new("nfvo.packages", Fault::Hang { hang: true }));
    let hasty = PackageSource::new(
        vnfm_nfvo::NfvoAddress {
            time: Duration::from_millis(200),
            ..address(scene.world.nfvo().url(), basic(), Tls::default())
        },
        Hurried::new(),
    );
    let error = hasty.unwrap().of_vnfd("vnfd-1").await.unwrap_err();
    assert_eq!(error.name(), "nfvo.unreachable", "{error}");
    let nobody = source(scene.world.nfvo().url(), Login::None);
    let error = nobody.of_vnfd("vnfd-1").await.unwrap_err();
    assert_eq!(error.name(), "nfvo.packages-refused", "{error}");
    assert!(error.to_string().contains("401"), "{error}");
}

#[tokio::test]
async fn a_subscription_is_made_looked_at_and_ended() {
    let scene = Scene::new(Wanted::None).await;
    let (callback, password) = ("http://127.0.0.1:9/told", Secret::new("planted-callback"));
    let subscribe = || scene.source.subscribe(callback, ("nfvo", &password));
    let (one, two) = (subscribe().await.unwrap(), subscribe().await.unwrap());
    assert!(scene.source.is_subscribed(&one).await.unwrap());
    let other = scene
        .source
        .subscribe("http://127.0.0.1:9/other", ("nfvo", &password))
        .await;
    scene.source.unsubscribe(callback).await.unwrap();
    for id in [&one, &two] {
        assert!(!scene.source.is_subscribed(id).await.unwrap(), "{id}");
    }
    assert!(
        scene.source.is_subscribed(&other.unwrap()).await.unwrap(),
        "only our own are ended"
    );
    scene.arm(Rule::new("nfvo.subscribe", Fault::Status { status: 500 }));
    let error = subscribe().await.unwrap_err();
    assert_eq!(error.name(), "nfvo.failing", "{error}");
    assert!(!format!("{error:?}").contains("planted"), "{error:?}");
}
