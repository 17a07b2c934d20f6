//! Interoperability: we verify signatures of `openssl cms`, and it verifies ours.

use crate::pki::{Pki, SIGNER};
use std::io::Write as _;
use vnfm_signature::{Fault, Key, Padding, Signature, Signing, signature_pem};

const CONTENT: &[u8] = b"metadata:\r\n  vnf_product_name: Web\r\n\r\nSource: vnfd.yaml\r\n";
const KEYS: [&str; 4] = ["rsa", "P-256", "P-384", "P-521"];

/// The output of `openssl cms -sign` with these options.
fn signed(pki: &Pki, options: &str) -> Vec<u8> {
    pki.write("content", CONTENT);
    pki.openssl(&format!(
        "cms -sign -binary -in content -signer vendor.pem -inkey vendor.key {options} -out signature"
    ))
    .unwrap();
    pki.bytes("signature")
}

#[test]
fn signatures_of_openssl_are_verified() {
    for kind in KEYS {
        let pki = Pki::chain(kind);
        for options in [
            "-outform DER -md sha256",
            "-outform PEM -md sha384",
            "-outform DER -md sha512 -keyid",
            "-outform DER -md sha256 -noattr",
            "-outform PEM -md sha256 -certfile middle.pem",
        ] {
            let signature = Signature::read(&signed(&pki, options)).unwrap();
            let signers = signature.verify(CONTENT, &[]).unwrap();
            assert_eq!(
                signers[0].certificate.subject(),
                "CN=vendor,O=vnfm",
                "{kind} {options}"
            );
            let changed = signature.verify(b"something else", &[]).unwrap_err();
            let expected = if options.contains("noattr") {
                Fault::Signature("CN=vendor,O=vnfm".to_owned())
            } else {
                Fault::Content
            };
            assert_eq!(changed, expected, "{kind} {options}");
        }
    }
}

#[test]
fn a_signature_of_indefinite_length_is_parsed() {
    let pki = Pki::chain("P-256");
    let der = signed(&pki, "-outform DER -md sha256");
    assert_eq!(der[..2], [0x30, 0x82], "a length of two bytes");
    let ber = [&[0x30, 0x80], &der[4..], &[0, 0]].concat();
    assert_eq!(
        Signature::read(&ber)
            .unwrap()
            .verify(CONTENT, &[])
            .unwrap()
            .len(),
        1
    );
    let attached = Signature::read(&signed(&pki, "-outform DER -stream -md sha256"));
    assert_eq!(
        attached.unwrap_err(),
        Fault::Attached,
        "openssl puts the content into it"
    );
}

#[test]
fn rsa_pss_is_verified_with_any_salt() {
    let pki = Pki::chain("rsa");
    for salt in [
        "",
        "-keyopt rsa_pss_saltlen:32",
        "-keyopt rsa_pss_saltlen:20",
    ] {
        let options = format!("-outform DER -md sha256 -keyopt rsa_padding_mode:pss {salt}");
        let signature = Signature::read(&signed(&pki, &options)).unwrap();
        let signers = signature.verify(CONTENT, &[]).unwrap();
        assert_eq!(signers[0].algorithm, "RSA-PSS with SHA-256", "{salt}");
        assert_eq!(signature.verify(b"else", &[]).unwrap_err(), Fault::Content);
    }
}

#[test]
fn a_certificate_may_be_outside_the_signature() {
    let pki = Pki::chain("P-256");
    let signature = Signature::read(&signed(&pki, "-outform PEM -md sha256 -nocerts")).unwrap();
    let error = signature.verify(CONTENT, &[]).unwrap_err();
    assert!(matches!(&error, Fault::NoCertificate(_)), "{error}");
    let other = signature.verify(CONTENT, &pki.certificates(&["root", "middle"]));
    assert!(matches!(other, Err(Fault::NoCertificate(_))));
    let signers = signature
        .verify(CONTENT, &pki.certificates(&["middle", "vendor"]))
        .unwrap();
    assert_eq!(signers[0].certificate.issuer(), "CN=middle,O=vnfm");
}

#[test]
fn weak_and_unsupported_algorithms_are_refused_by_name() {
    let pki = Pki::chain("rsa");
    let weak = Signature::read(&signed(&pki, "-outform DER -md sha1")).unwrap();
    assert!(
        weak.verify(CONTENT, &[])
            .unwrap_err()
            .to_string()
            .contains("SHA-256")
    );
    let attached = Signature::read(&signed(&pki, "-outform DER -nodetach -md sha256"));
    assert_eq!(attached.unwrap_err(), Fault::Attached);
    pki.openssl("cms -data_create -in content -outform DER -out signature")
        .unwrap();
    let data = Signature::read(&pki.bytes("signature")).unwrap_err();
    assert!(matches!(data, Fault::NotSigned(_)), "{data}");
    let none = Signature::read(b"Source: vnfd.yaml").unwrap_err();
    assert!(matches!(none, Fault::NotCms(_)), "{none}");

    let pki = Pki::new();
    pki.key("vendor", "rsa1024");
    pki.certificate("vendor", None, SIGNER, 10);
    let short = Signature::read(&signed(&pki, "-outform DER -md sha256")).unwrap();
    assert_eq!(
        short.verify(CONTENT, &[]).unwrap_err(),
        Fault::Signature("CN=vendor,O=vnfm".to_owned())
    );
}

#[test]
fn every_signer_must_match() {
    let pki = Pki::chain("P-256");
    pki.key("second", "rsa");
    pki.certificate("second", Some("middle"), SIGNER, 100);
    let both = signed(
        &pki,
        "-outform DER -md sha256 -signer second.pem -inkey second.key",
    );
    let both = Signature::read(&both).unwrap();
    assert_eq!(both.verify(CONTENT, &[]).unwrap().len(), 2);
    assert!(both.verify(b"else", &[]).is_err());
}

#[test]
fn openssl_verifies_our_signatures() {
    for kind in KEYS {
        let pki = Pki::chain(kind);
        let chain = pki.certificates(&["vendor", "middle"]);
        let paddings: &[Padding] = if kind == "rsa" {
            &[Padding::Pkcs1, Padding::Pss]
        } else {
            &[Padding::Pkcs1]
        };
        for padding in paddings {
            let key = pki.signing_key("vendor", *padding);
            for inside in [true, false] {
                let mut signing = Signing::new(&key, &chain);
                signing.write_all(CONTENT).unwrap();
                let der = signing.finish(inside).unwrap();
                pki.write("ours", signature_pem(&der).as_bytes());
                pki.write("content", CONTENT);
                let verify = |content: &str| {
                    pki.openssl(&format!(
                        "cms -verify -binary -inform PEM -in ours -content {content} -CAfile root.pem -purpose any \
                         -certfile vendor.pem -certfile middle.pem -out verified"
                    ))
                };
                // Certificates next to a signature are not part of its chain.
                pki.write(
                    "both.pem",
                    &[pki.bytes("root.pem"), pki.bytes("middle.pem")].concat(),
                );
                let verify_beside = |content: &str| {
                    pki.openssl(&format!(
                        "cms -verify -binary -inform PEM -in ours -content {content} -CAfile both.pem -purpose any \
                         -certfile vendor.pem -out verified"
                    ))
                };
                let outcome = if inside {
                    verify("content")
                } else {
                    verify_beside("content")
                };
                outcome.unwrap_or_else(|said| panic!("{kind} {padding:?} inside={inside}: {said}"));
                pki.write("other", b"something else");
                assert!(verify_beside("other").is_err(), "{kind} {padding:?}");
                let own = Signature::read(&der).unwrap();
                assert_eq!(
                    own.verify(CONTENT, &chain).unwrap()[0].algorithm,
                    key.algorithm()
                );
            }
        }
    }
}

#[test]
fn rsa_signatures_are_reproducible() {
    let pki = Pki::chain("rsa");
    let (key, chain) = (
        pki.signing_key("vendor", Padding::Pkcs1),
        pki.certificates(&["vendor"]),
    );
    let sign = || {
        let mut signing = Signing::new(&key, &chain);
        signing.write_all(CONTENT).unwrap();
        signing.finish(true).unwrap()
    };
    assert_eq!(sign(), sign());
}

#[test]
fn an_unsuitable_key_is_refused_with_the_reason() {
    let pki = Pki::chain("rsa");
    pki.key("other", "rsa");
    let (other, chain) = (
        pki.signing_key("other", Padding::Pkcs1),
        pki.certificates(&["vendor"]),
    );
    let error = Signing::new(&other, &chain).finish(true).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("does not match the certificate `CN=vendor,O=vnfm`")
    );
    pki.openssl("pkcs8 -topk8 -in vendor.key -passout pass:secret -out locked.key")
        .unwrap();
    let locked = Key::read(&pki.bytes("locked.key"), Padding::Pkcs1).unwrap_err();
    assert!(locked.to_string().contains("openssl pkey"), "{locked}");
    let none = Key::read(&pki.bytes("vendor.pem"), Padding::Pkcs1).unwrap_err();
    assert!(none.to_string().contains("no private key"), "{none}");
    for form in [
        "pkcs8 -topk8 -nocrypt -outform DER -in vendor.key -out form",
        "rsa -traditional -in vendor.key -out form",
    ] {
        pki.openssl(form).unwrap();
        Key::read(&pki.bytes("form"), Padding::Pss).unwrap();
    }
    assert_eq!(
        format!("{:?}", pki.signing_key("vendor", Padding::Pss)),
        "Key([hidden])"
    );
}
