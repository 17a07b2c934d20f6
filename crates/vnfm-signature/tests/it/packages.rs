//! Packages signed by both options with `openssl`, and the faults reported when something is missing.

use crate::pki::{Pki, now};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use vnfm_descriptor::{Limits, Package, SignedArchive, manifest_with, repack, wrap};
use vnfm_signature::{Fault, Kind, Report, Trust, check, check_outer};

fn sample() -> Package {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples/vnf-b-cnf");
    Package::open(&path, &Limits::default()).unwrap()
}

/// The manifest's path, and its text with all hashes.
fn manifest(package: &Package) -> (String, String) {
    let path = package.manifest().unwrap().path.clone();
    let text = String::from_utf8(package.read(&path).unwrap()).unwrap();
    let manifest = manifest_with(package, &text, &BTreeMap::new(), &[&path]).unwrap();
    (path, manifest)
}

/// A signature of `content`, created by openssl, as PEM.
fn cms(pki: &Pki, content: &[u8], options: &str) -> String {
    pki.write("content", content);
    pki.openssl(&format!(
        "cms -sign -binary -in content -signer vendor.pem -inkey vendor.key -md sha256 {options} -outform PEM -out signature"
    ))
    .unwrap();
    String::from_utf8(pki.bytes("signature")).unwrap()
}

/// Opens the package with some files replaced.
fn with(package: &Package, files: &[(&str, &[u8])]) -> Package {
    let files: BTreeMap<String, Vec<u8>> = files
        .iter()
        .map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec()))
        .collect();
    let mut bytes = Cursor::new(Vec::new());
    repack(package, &files, &mut bytes).unwrap();
    Package::from_bytes(bytes.into_inner(), &Limits::default()).unwrap()
}

/// The package signed by option 1, with the chain in the signature.
fn signed(pki: &Pki) -> Package {
    let package = sample();
    let (path, text) = manifest(&package);
    let signature = cms(pki, text.as_bytes(), "-certfile middle.pem");
    with(
        &package,
        &[(&path, format!("{text}{signature}").as_bytes())],
    )
}

fn faults(report: &Report) -> Vec<(&str, &Fault)> {
    report
        .faults
        .iter()
        .map(|(file, fault)| (file.as_str(), fault))
        .collect()
}

#[test]
fn a_signed_manifest_covers_every_file_that_it_names() {
    let pki = Pki::chain("rsa");
    let package = signed(&pki);
    let trust = Trust::new(&pki.bytes("root.pem"), None).unwrap();
    let report = check(&package, Some((&trust, now())));
    assert!(report.is_fine(), "{report}");
    assert_eq!(report.signed[0].signer.algorithm, "RSA with SHA-256");
    assert!(
        package
            .warnings()
            .iter()
            .all(|warning| !warning.message.contains("hash"))
    );

    let unnamed = with(&package, &[("Scripts/planted.sh", b"rm -rf /")]);
    let report = check(&unnamed, Some((&trust, now())));
    assert_eq!(faults(&report), [("Scripts/planted.sh", &Fault::Uncovered)]);

    let stranger = Pki::chain("rsa");
    let other = Trust::new(&stranger.bytes("root.pem"), None).unwrap();
    let report = check(&package, Some((&other, now())));
    assert_eq!(report.kinds().collect::<Vec<_>>(), [Kind::Untrusted]);
    assert!(check(&package, None).is_fine(), "trust was not checked");
}

#[test]
fn the_certificate_may_be_named_in_tosca_meta_or_be_next_to_the_manifest() {
    let pki = Pki::chain("P-384");
    let package = sample();
    let (path, text) = manifest(&package);
    let signature = cms(&pki, text.as_bytes(), "-nocerts");
    let manifest = format!("{text}{signature}");
    let beside = format!("{}.cert", path.trim_end_matches(".mf"));
    let chain = [pki.bytes("vendor.pem"), pki.bytes("middle.pem")].concat();
    let trust = Trust::new(&pki.bytes("root.pem"), None).unwrap();

    let alone = with(&package, &[(&path, manifest.as_bytes())]);
    assert!(matches!(
        faults(&check(&alone, None))[..],
        [(_, Fault::NoCertificate(_))]
    ));
    let report = check(
        &with(&package, &[(&path, manifest.as_bytes()), (&beside, &chain)]),
        Some((&trust, now())),
    );
    assert!(report.is_fine(), "{report}");

    let meta = "TOSCA-Metadata/TOSCA.meta";
    let named = String::from_utf8(package.read(meta).unwrap()).unwrap();
    let named = format!(
        "{}\nETSI-Entry-Certificate: Certificates/us.cert\n",
        named.trim_end()
    );
    let instead = BTreeMap::from([(meta.to_owned(), named.clone().into_bytes())]);
    let text = manifest_with(&package, &text, &instead, &[&path]).unwrap();
    let manifest = format!("{text}{}", cms(&pki, text.as_bytes(), "-nocerts"));
    let files: &[(&str, &[u8])] = &[
        (meta, named.as_bytes()),
        (&path, manifest.as_bytes()),
        ("Certificates/us.cert", &chain),
    ];
    let report = check(&with(&package, files), Some((&trust, now())));
    assert!(report.is_fine(), "{report}");
}

#[test]
fn an_edited_manifest_is_detected() {
    let pki = Pki::chain("P-256");
    let package = signed(&pki);
    let path = package.manifest().unwrap().path.clone();
    let text = String::from_utf8(package.read(&path).unwrap()).unwrap();
    let edit = |text: &str| check(&with(&package, &[(&path, text.as_bytes())]), None);
    let edited = text.replace("vnf_provider_id:", "vnf_provider_id: not");
    assert_eq!(faults(&edit(&edited)), [(path.as_str(), &Fault::Content)]);
    let crlf = text.replace('\n', "\r\n");
    assert_eq!(faults(&edit(&crlf)), [(path.as_str(), &Fault::Content)]);
    let report = edit(&format!("{text}\nSource: more\n"));
    assert!(
        report.to_string().contains("data follows its end"),
        "{report}"
    );
    let (unsigned, _) = text.split_once("-----BEGIN").unwrap();
    assert_eq!(faults(&edit(unsigned)), [(path.as_str(), &Fault::Unsigned)]);
    assert_eq!(
        check(&sample(), None).kinds().collect::<Vec<_>>(),
        [Kind::Missing]
    );
}

#[test]
fn hashes_after_the_signature_are_refused() {
    let pki = Pki::chain("P-256");
    let package = signed(&pki);
    let path = package.manifest().unwrap().path.clone();
    let text = String::from_utf8(package.read(&path).unwrap()).unwrap();
    let planted = b"reboot";
    pki.write("planted", planted);
    pki.openssl("dgst -sha256 -out digest planted").unwrap();
    let digest = String::from_utf8(pki.bytes("digest")).unwrap();
    let digest = digest.rsplit_once(' ').unwrap().1.trim();
    for label in ["CMS", "PKCS7"] {
        let smuggled = format!(
            "-----BEGIN {label}-----\nSource: Scripts/planted.sh\nAlgorithm: SHA-256\nHash: {digest}\n\n"
        );
        let text = text
            .replace("-----BEGIN CMS-----\n", &smuggled)
            .replace("-----END CMS-----", &format!("-----END {label}-----"));
        let files: &[(&str, &[u8])] = &[(&path, text.as_bytes()), ("Scripts/planted.sh", planted)];
        let report = check(&with(&package, files), None);
        assert!(
            faults(&report).contains(&("Scripts/planted.sh", &Fault::Uncovered)),
            "{report}"
        );
    }
}

#[test]
fn a_file_may_have_a_separate_signature() {
    let pki = Pki::chain("P-256");
    let package = sample();
    let (path, text) = manifest(&package);
    let file = "Files/kubernetes/order.yaml";
    let own = cms(&pki, &package.read(file).unwrap(), "-nocerts");
    let text = text.replace(
        &format!("Source: {file}\n"),
        &format!("Source: {file}\nSignature: Files/order.sig.cms\nCertificate: Files/order.cert\n"),
    );
    assert!(text.contains("Signature:"));
    let manifest = format!("{text}{}", cms(&pki, text.as_bytes(), ""));
    let certificate = pki.bytes("vendor.pem");
    let signed = with(
        &package,
        &[
            (&path, manifest.as_bytes()),
            ("Files/order.sig.cms", own.as_bytes()),
            ("Files/order.cert", &certificate),
        ],
    );
    let report = check(&signed, None);
    assert!(report.is_fine(), "{report}");
    assert_eq!(report.signed.len(), 2);
    let other = cms(&pki, b"another file", "-nocerts");
    let wrong = with(&signed, &[("Files/order.sig.cms", other.as_bytes())]);
    let report = check(&wrong, None);
    assert!(
        faults(&report).contains(&(file, &Fault::Content)),
        "{report}"
    );
}

/// A signed outer archive with the sample, after `change` modified its files.
fn outer(pki: &Pki, options: &str, certificate: bool) -> PathBuf {
    let inner = pki.path("web.csar");
    repack(
        &sample(),
        &BTreeMap::new(),
        &mut File::create(&inner).unwrap(),
    )
    .unwrap();
    let signature = cms(pki, &fs::read(&inner).unwrap(), options);
    let path = pki.path("web.zip");
    let chain = certificate.then(|| [pki.bytes("vendor.pem"), pki.bytes("middle.pem")].concat());
    wrap(
        ("web", &inner),
        signature.as_bytes(),
        chain.as_deref(),
        &mut File::create(&path).unwrap(),
    )
    .unwrap();
    path
}

#[test]
fn option_2_signs_every_byte_of_the_package() {
    let pki = Pki::chain("rsa");
    let trust = Trust::new(&pki.bytes("root.pem"), None).unwrap();
    for (options, beside) in [("-certfile middle.pem", false), ("-nocerts", true)] {
        let path = outer(&pki, options, beside);
        let found = SignedArchive::find(&path, &Limits::default()).unwrap();
        assert_eq!(
            (found.package(), found.certificate_file().is_some()),
            ("web.csar", beside)
        );
        let mut inner = Vec::new();
        let report = check_outer(&found, (1 << 20, &mut inner), Some((&trust, now()))).unwrap();
        assert!(report.is_fine(), "{report}");
        assert_eq!(inner, fs::read(pki.path("web.csar")).unwrap());
        assert!(
            check_outer(&found, (100, &mut Vec::new()), None).is_err(),
            "it is larger"
        );
        Package::from_bytes(inner, &Limits::default()).unwrap();
    }
    let other = pki.path("other.csar");
    let package = with(&sample(), &[("more", b"planted")]);
    repack(
        &package,
        &BTreeMap::new(),
        &mut File::create(&other).unwrap(),
    )
    .unwrap();
    let found = SignedArchive::find(&outer(&pki, "", false), &Limits::default()).unwrap();
    let signature = found.signature().unwrap();
    let path = pki.path("forged.zip");
    wrap(
        ("web", &other),
        &signature,
        None,
        &mut File::create(&path).unwrap(),
    )
    .unwrap();
    let forged = SignedArchive::find(&path, &Limits::default()).unwrap();
    let report = check_outer(&forged, (1 << 20, &mut Vec::new()), None).unwrap();
    assert_eq!(faults(&report), [("web.csar", &Fault::Content)]);
}

#[test]
fn a_package_is_not_an_outer_archive() {
    let pki = Pki::new();
    let path = pki.path("package.csar");
    repack(
        &sample(),
        &BTreeMap::new(),
        &mut File::create(&path).unwrap(),
    )
    .unwrap();
    assert!(SignedArchive::find(&path, &Limits::default()).is_none());
    assert!(SignedArchive::find(&pki.path("absent"), &Limits::default()).is_none());
}

#[test]
fn signing_is_reproducible() {
    let pki = Pki::new();
    let bytes = |name: &str| {
        let path = pki.path(name);
        repack(
            &sample(),
            &BTreeMap::new(),
            &mut File::create(&path).unwrap(),
        )
        .unwrap();
        fs::read(path).unwrap()
    };
    assert_eq!(bytes("a"), bytes("b"));
}
