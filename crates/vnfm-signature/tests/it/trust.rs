//! The chain from a signer to an authority: everything in it that can be missing or wrong.

use crate::pki::{AUTHORITY, DAY, Pki, SIGNER, now};
use vnfm_signature::{Fault, Kind, Signer, Trust};

fn trust(pki: &Pki, name: &str) -> Trust {
    Trust::new(&pki.bytes(&format!("{name}.pem")), None).unwrap()
}

#[track_caller]
fn refused(outcome: Result<(), Fault>, why: &str) {
    let fault = outcome
        .err()
        .unwrap_or_else(|| panic!("trusted in spite of: {why}"));
    assert_eq!(fault.kind(), Kind::Untrusted);
    assert!(fault.to_string().contains(why), "`{fault}` lacks `{why}`");
}

#[test]
fn a_chain_leads_to_a_trusted_authority() {
    let pki = Pki::chain("P-256");
    let signer = pki.signer();
    for trusted in ["root", "middle", "vendor"] {
        trust(&pki, trusted)
            .check(&signer, now())
            .unwrap_or_else(|e| panic!("{trusted}: {e}"));
    }
    pki.key("stranger", "P-256");
    pki.certificate("stranger", None, AUTHORITY, 100);
    refused(
        trust(&pki, "stranger").check(&signer, now()),
        "no chain leads from its issuer `CN=middle,O=vnfm`",
    );
    // An authority of the same name with another key is another one.
    pki.key("twin", "P-256");
    pki.openssl("req -new -key twin.key -subj /O=vnfm/CN=middle -out twin.csr")
        .unwrap();
    pki.write("extensions", AUTHORITY.as_bytes());
    pki.openssl(
        "x509 -req -in twin.csr -signkey twin.key -days 10 -extfile extensions -out twin.pem",
    )
    .unwrap();
    assert!(trust(&pki, "twin").check(&signer, now()).is_err());
}

#[test]
fn a_chain_with_a_missing_certificate_is_refused() {
    let pki = Pki::chain("P-256");
    pki.write("content", b"content");
    pki.openssl("cms -sign -binary -in content -signer vendor.pem -inkey vendor.key -outform DER -out signature")
        .unwrap();
    let signature = vnfm_signature::Signature::read(&pki.bytes("signature")).unwrap();
    let alone = signature.verify(b"content", &[]).unwrap().remove(0);
    refused(trust(&pki, "root").check(&alone, now()), "no chain leads");
    let beside = signature
        .verify(b"content", &pki.certificates(&["middle"]))
        .unwrap()
        .remove(0);
    trust(&pki, "root").check(&beside, now()).unwrap();
}

#[test]
fn a_certificate_is_accepted_only_during_its_validity() {
    let pki = Pki::chain("P-256");
    let signer = pki.signer();
    let root = trust(&pki, "root");
    refused(
        root.check(&signer, now() - 10 * DAY),
        "it is not valid before",
    );
    refused(root.check(&signer, now() + 101 * DAY), "it was valid until");
    root.check(&signer, now() + 99 * DAY).unwrap();
    // The authority ends before the signer does.
    pki.certificate("middle", Some("root"), AUTHORITY, 50);
    refused(
        root.check(&pki.signer(), now() + 60 * DAY),
        "an authority of its chain is no longer valid",
    );
    pki.certificate("root", None, AUTHORITY, 20);
    refused(
        trust(&pki, "root").check(&pki.signer(), now() + 30 * DAY),
        "`CN=root,O=vnfm` is trusted, but it was valid until",
    );
}

/// A PKI with one certificate recreated with `extensions`, and its signer.
fn with(name: &str, extensions: &str) -> (Pki, Signer) {
    let pki = Pki::chain("P-256");
    pki.certificate(
        name,
        Some(if name == "middle" { "root" } else { "middle" }),
        extensions,
        100,
    );
    let signer = pki.signer();
    (pki, signer)
}

#[test]
fn key_usages_are_enforced() {
    for (name, extensions, why) in [
        (
            "vendor",
            "keyUsage=critical,keyEncipherment\n",
            "its key is not for signatures",
        ),
        (
            "vendor",
            "extendedKeyUsage=serverAuth\n",
            "names neither codeSigning nor emailProtection",
        ),
        ("vendor", AUTHORITY, "its key is not for signatures"),
        (
            "vendor",
            "basicConstraints=critical,CA:true\n",
            "it is an authority's own",
        ),
        ("middle", SIGNER, "is not an authority's"),
        (
            "middle",
            "basicConstraints=critical,CA:true\nkeyUsage=critical,cRLSign\n",
            "is not an authority's",
        ),
        (
            "middle",
            "extendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:true\n",
            "extended key usage",
        ),
    ] {
        let (pki, signer) = with(name, extensions);
        refused(trust(&pki, "root").check(&signer, now()), why);
    }
    for extensions in [
        "extendedKeyUsage=codeSigning,serverAuth\n",
        "keyUsage=nonRepudiation\n",
        "extendedKeyUsage=emailProtection\n",
    ] {
        let (pki, signer) = with("vendor", extensions);
        trust(&pki, "root").check(&signer, now()).unwrap();
    }
}

#[test]
fn the_path_length_constraint_of_the_root_is_enforced() {
    let pki = Pki::chain("P-256");
    let with = |length: u8| {
        let extensions = format!(
            "basicConstraints=critical,CA:true,pathlen:{length}\nkeyUsage=critical,keyCertSign\n"
        );
        pki.certificate("root", None, &extensions, 1000);
        pki.certificate("middle", Some("root"), AUTHORITY, 900);
        trust(&pki, "root").check(&pki.signer(), now())
    };
    refused(with(0), "its chain is longer than an authority allows");
    with(1).unwrap();
}

#[test]
fn a_trusted_certificate_that_is_not_an_authority_issues_no_others() {
    let pki = Pki::chain("P-256");
    pki.certificate("root", None, "basicConstraints=CA:false\n", 1000);
    refused(
        trust(&pki, "root").check(&pki.signer(), now()),
        "no chain leads",
    );
}

/// A revocation list of `middle` with these serial numbers, valid for `days`.
fn revocations(pki: &Pki, revoked: &[&str], days: u32) -> Vec<u8> {
    let config = "[ca]\ndefault_ca=a\n[a]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\ncrl_extensions=x\n\
                  [x]\nauthorityKeyIdentifier=keyid\n";
    pki.write("ca.cnf", config.as_bytes());
    pki.write("index", b"");
    pki.write("number", b"01\n");
    for name in revoked {
        pki.openssl(&format!(
            "ca -config ca.cnf -revoke {name}.pem -cert middle.pem -keyfile middle.key"
        ))
        .unwrap();
    }
    pki.openssl(&format!(
        "ca -config ca.cnf -gencrl -crldays {days} -cert middle.pem -keyfile middle.key -out list.pem"
    ))
    .unwrap();
    pki.bytes("list.pem")
}

#[test]
fn a_revoked_certificate_is_not_trusted() {
    let pki = Pki::chain("P-256");
    let signer = pki.signer();
    let with = |list: &[u8]| Trust::new(&pki.bytes("root.pem"), Some(list)).unwrap();
    with(&revocations(&pki, &[], 30))
        .check(&signer, now())
        .unwrap();
    let list = with(&revocations(&pki, &["vendor"], 30));
    refused(list.check(&signer, now()), "it was revoked");
    let old = with(&revocations(&pki, &[], 1));
    refused(
        old.check(&signer, now() + 5 * DAY),
        "revocation list of its issuer is out of date",
    );
}

#[test]
fn invalid_trust_files_are_refused() {
    let pki = Pki::chain("P-256");
    let root = pki.bytes("root.pem");
    for (certificates, list, why) in [
        (b"nothing".to_vec(), None, "a certificate cannot be read"),
        (pki.bytes("root.key"), None, "no certificate"),
        (root.clone(), Some(root.clone()), "no revocation list"),
        (
            root,
            Some(b"nothing".to_vec()),
            "a revocation list cannot be read",
        ),
    ] {
        let error = Trust::new(&certificates, list.as_deref())
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "`{error}` lacks `{why}`");
    }
}
