//! Signatures of packages: required, warned about or ignored, by trusted and other vendors.

use crate::bench::{Bench, PACKAGES, Setup, packed};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256,
};
use serde_json::{Value, json};
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;
use tempfile::TempDir;
use vnfm_descriptor::{Limits, Package};
use vnfm_server::{Packages, Policy, Signatures};
use vnfm_signature::{Certificate, Key, Padding, Seal};

/// A vendor with its own certificate authority.
struct Vendor {
    key: Key,
    chain: Vec<Certificate>,
    authority: String,
}

impl Vendor {
    fn new() -> Self {
        let pair = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = pair();
        let authority = params.self_signed(&root).unwrap().pem();
        let issuer = Issuer::new(params, root);
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "vendor");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let own = pair();
        let certificate = params.signed_by(&own, &issuer).unwrap();
        Self {
            key: Key::read(own.serialize_pem().as_bytes(), Padding::Pkcs1).unwrap(),
            chain: Certificate::read(certificate.pem().as_bytes()).unwrap(),
            authority,
        }
    }

    fn seal(&self, inside: bool) -> Seal<'_> {
        Seal {
            key: &self.key,
            chain: &self.chain,
            inside,
        }
    }

    /// VNF-B, signed by option 1 of SOL004.
    fn manifest(&self, inside: bool) -> Vec<u8> {
        let package = Package::from_bytes(packed("vnf-b-cnf"), &Limits::default()).unwrap();
        let mut bytes = Cursor::new(Vec::new());
        self.seal(inside).package(&package, &mut bytes).unwrap();
        bytes.into_inner()
    }

    /// VNF-B, signed by option 2 of SOL004.
    fn outer_archive(&self, content: &[u8], inside: bool) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.csar");
        fs::write(&path, content).unwrap();
        let mut bytes = Cursor::new(Vec::new());
        self.seal(inside).outer(("b", &path), &mut bytes).unwrap();
        bytes.into_inner()
    }
}

/// A server that trusts `vendor`, with its files in the folder.
async fn trusting(vendor: &Vendor, signatures: Policy) -> (Bench, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let trust = folder.path().join("trust.pem");
    fs::write(&trust, &vendor.authority).unwrap();
    let signatures = Packages {
        signatures,
        trust: Some(trust),
        ..Packages::default()
    };
    (
        Bench::with(Setup {
            signatures,
            ..Setup::default()
        })
        .await,
        folder,
    )
}

async fn onboarded(bench: &Bench, content: Vec<u8>) -> Value {
    let (id, response) = bench.upload(content).await;
    assert_eq!(response.status, 202, "{response:?}");
    bench.get(&format!("{PACKAGES}/{id}")).await.body
}

#[track_caller]
fn refused(info: &Value, why: &str) {
    assert_eq!(info["onboardingState"], "ERROR", "{info:#}");
    let detail = info["onboardingFailureDetails"]["detail"].as_str().unwrap();
    assert!(detail.contains(why), "`{detail}` lacks `{why}`");
    assert!(info.get("packageSecurityOption").is_none() && info.get("vnfdId").is_none());
}

#[tokio::test]
async fn required_signatures_must_be_from_trusted_vendors() {
    let (vendor, stranger) = (Vendor::new(), Vendor::new());
    let (bench, _folder) = trusting(&vendor, Policy::Require).await;
    let unsigned = onboarded(&bench, packed("vnf-b-cnf")).await;
    refused(&unsigned, "signature: vnf-b.mf: the package is not signed");
    refused(
        &onboarded(&bench, stranger.manifest(true)).await,
        "`CN=vendor` is not trusted",
    );
    let foreign = stranger.outer_archive(&packed("vnf-b-cnf"), true);
    refused(
        &onboarded(&bench, foreign).await,
        "`CN=vendor` is not trusted",
    );

    for (content, option, beside) in [
        (vendor.manifest(true), "OPTION_1", false),
        (vendor.manifest(false), "OPTION_1", true),
        (
            vendor.outer_archive(&packed("vnf-b-cnf"), true),
            "OPTION_2",
            false,
        ),
        (
            vendor.outer_archive(&packed("vnf-b-cnf"), false),
            "OPTION_2",
            true,
        ),
    ] {
        let inner = if option == "OPTION_2" {
            packed("vnf-b-cnf")
        } else {
            content.clone()
        };
        let info = onboarded(&bench, content).await;
        assert_eq!(info["onboardingState"], "ONBOARDED", "{info:#}");
        assert_eq!(info["packageSecurityOption"], option);
        let stored = Package::from_bytes(inner, &Limits::default()).unwrap();
        assert_eq!(
            info["checksum"]["hash"],
            stored.sha256(),
            "the checksum is of the package, not of the outer archive"
        );
        let certificate = info["signingCertificate"].as_str();
        assert_eq!(
            certificate.is_some_and(|pem| pem.starts_with("-----BEGIN CERTIFICATE")),
            beside
        );
        assert!(
            !info["warnings"].to_string().contains("ignature"),
            "{info:#}"
        );
        bench.drop_package(info["id"].as_str().unwrap()).await;
    }
}

#[tokio::test]
async fn a_package_changed_after_signing_is_refused() {
    let vendor = Vendor::new();
    let (bench, _folder) = trusting(&vendor, Policy::Require).await;
    let signed = Package::from_bytes(vendor.manifest(true), &Limits::default()).unwrap();
    let more = [("Scripts/smuggled.sh".to_owned(), b"reboot".to_vec())].into();
    let mut bytes = Cursor::new(Vec::new());
    vnfm_descriptor::repack(&signed, &more, &mut bytes).unwrap();
    let info = onboarded(&bench, bytes.into_inner()).await;
    assert_eq!(info["onboardingState"], "ERROR");
    assert!(
        info.to_string().contains("no signature covers it"),
        "{info:#}"
    );
    // The refused package left nothing behind: the same VNFD can be onboarded.
    let info = onboarded(&bench, vendor.manifest(true)).await;
    assert_eq!(info["onboardingState"], "ONBOARDED", "{info:#}");
}

#[tokio::test]
async fn with_warnings_only_an_unsigned_package_is_accepted() {
    let vendor = Vendor::new();
    let (bench, _folder) = trusting(&vendor, Policy::Warn).await;
    let info = onboarded(&bench, packed("vnf-b-cnf")).await;
    assert_eq!(info["onboardingState"], "ONBOARDED", "{info:#}");
    assert!(
        info["warnings"]
            .to_string()
            .contains("the package is not signed"),
        "{info:#}"
    );
}

#[tokio::test]
async fn without_signature_checks_a_signed_package_is_accepted() {
    let bench = Bench::new().await;
    let vendor = Vendor::new();
    for (content, option) in [
        (
            vendor.outer_archive(&packed("vnf-b-cnf"), false),
            json!("OPTION_2"),
        ),
        (vendor.manifest(false), json!("OPTION_1")),
        (packed("vnf-b-cnf"), Value::Null),
    ] {
        let info = onboarded(&bench, content).await;
        assert_eq!(info["onboardingState"], "ONBOARDED", "{info:#}");
        assert_eq!(info["packageSecurityOption"], option, "{info:#}");
        let certificate = info["signingCertificate"].as_str().unwrap_or_default();
        assert_eq!(
            certificate.starts_with("-----BEGIN CERTIFICATE"),
            !option.is_null()
        );
        bench.drop_package(info["id"].as_str().unwrap()).await;
    }
}

#[tokio::test]
async fn an_outer_archive_cannot_hide_an_oversized_package() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("b.csar"), vec![0; 8 << 20]).unwrap();
    fs::write(folder.path().join("b.cms"), "-----BEGIN CMS-----").unwrap();
    let outer = vnfm_descriptor::pack(folder.path(), &Limits::default()).unwrap();
    assert!(outer.len() < 1 << 20);
    let bench = Bench::new().await;
    refused(
        &onboarded(&bench, outer).await,
        "`b.csar` has more than 1048576 bytes",
    );
}

#[tokio::test]
async fn required_signatures_without_authorities_prevent_startup() {
    let clock = std::sync::Arc::new(vnfm::SystemClock);
    let require = Packages {
        signatures: Policy::Require,
        ..Packages::default()
    };
    let error = Signatures::new(require.clone(), clock.clone())
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("packages.trust is not set"),
        "{error:#}"
    );
    let absent = Packages {
        trust: Some(PathBuf::from("/no/such/file")),
        ..require
    };
    let error = format!("{:#}", Signatures::new(absent, clock).err().unwrap());
    assert!(error.contains("cannot read `/no/such/file`"), "{error}");
}
