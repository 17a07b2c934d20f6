//! Keys and certificates, created by `openssl` for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use vnfm_signature::{Certificate, Key, Padding, Signature, Signer};

pub(crate) const AUTHORITY: &str = "basicConstraints=critical,CA:true\nkeyUsage=critical,keyCertSign,cRLSign\n\
                                    subjectKeyIdentifier=hash\n";
pub(crate) const SIGNER: &str = "basicConstraints=CA:false\nkeyUsage=critical,digitalSignature\n\
                                 subjectKeyIdentifier=hash\n";

/// A folder with keys (`NAME.key`) and certificates (`NAME.pem`).
pub(crate) struct Pki {
    folder: TempDir,
}

impl Pki {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Runs `openssl` in the folder; returns its output.
    pub(crate) fn openssl(&self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        run(self.folder.path(), &words)
    }

    /// Creates a key: `rsa`, `rsa1024`, `P-256`, `P-384` or `P-521`.
    pub(crate) fn key(&self, name: &str, kind: &str) {
        let how = match kind {
            "rsa" => "-algorithm RSA -pkeyopt rsa_keygen_bits:2048".to_owned(),
            "rsa1024" => "-algorithm RSA -pkeyopt rsa_keygen_bits:1024".to_owned(),
            curve => format!("-algorithm EC -pkeyopt ec_paramgen_curve:{curve}"),
        };
        self.openssl(&format!("genpkey {how} -out {name}.key"))
            .unwrap();
    }

    /// Creates a certificate for the key of the same name, issued by `issuer` or self-signed.
    pub(crate) fn certificate(
        &self,
        name: &str,
        issuer: Option<&str>,
        extensions: &str,
        days: u32,
    ) {
        self.write("extensions", extensions.as_bytes());
        self.openssl(&format!(
            "req -new -key {name}.key -subj /O=vnfm/CN={name} -out {name}.csr"
        ))
        .unwrap();
        let by = match issuer {
            None => format!("-signkey {name}.key"),
            Some(by) => format!("-CA {by}.pem -CAkey {by}.key"),
        };
        let serial = name
            .bytes()
            .fold(1_u64, |sum, byte| sum * 131 % 1_000_003 + u64::from(byte));
        self.openssl(&format!(
            "x509 -req -sha256 -in {name}.csr {by} -set_serial {serial} -days {days} -extfile extensions -out {name}.pem"
        ))
        .unwrap();
    }

    /// A root, an intermediate authority and a signer with a key of this kind: `root`, `middle`, `vendor`.
    pub(crate) fn chain(kind: &str) -> Self {
        let pki = Self::new();
        for name in ["root", "middle"] {
            pki.key(name, "P-256");
        }
        pki.key("vendor", kind);
        pki.certificate("root", None, AUTHORITY, 1000);
        pki.certificate("middle", Some("root"), AUTHORITY, 900);
        pki.certificate("vendor", Some("middle"), SIGNER, 100);
        pki
    }

    pub(crate) fn certificates(&self, names: &[&str]) -> Vec<Certificate> {
        names
            .iter()
            .flat_map(|name| Certificate::read(&self.bytes(&format!("{name}.pem"))).unwrap())
            .collect()
    }

    pub(crate) fn signing_key(&self, name: &str, padding: Padding) -> Key {
        Key::read(&self.bytes(&format!("{name}.key")), padding).unwrap()
    }

    /// A signature by `vendor` that includes `middle`.
    pub(crate) fn signer(&self) -> Signer {
        self.write("content", b"content");
        self.openssl(
            "cms -sign -binary -in content -signer vendor.pem -inkey vendor.key -certfile middle.pem \
             -outform DER -out signature",
        )
        .unwrap();
        let signature = Signature::read(&self.bytes("signature")).unwrap();
        signature.verify(b"content", &[]).unwrap().remove(0)
    }
}

pub(crate) fn run(folder: &Path, words: &[&str]) -> Result<String, String> {
    let output = Command::new("openssl")
        .args(words)
        .current_dir(folder)
        .output();
    let output = output.unwrap_or_else(|error| panic!("openssl: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(stderr)
    } else {
        Err(format!("openssl {words:?}: {stderr}"))
    }
}

/// Seconds since 1970, by the real clock.
#[expect(
    clippy::disallowed_methods,
    reason = "openssl dates certificates by the real clock"
)]
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 60
}

pub(crate) const DAY: u64 = 24 * 3600;
