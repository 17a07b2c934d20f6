//! `vnfmctl bundle …`: a signed file that carries an installation to a site without internet access.

mod create;
mod folders;
mod install;

use super::package_files::{SIGNERS, UNCHECKED_SIGNERS, now, read_trust, signer_row};
use crate::args::Bundle as Arguments;
use crate::bundle::{Bundle, Item, bytes_bar};
use crate::client::{Client, Failure, Outcome};
use crate::output::{Column, Output, tell};
use serde_json::{Value, json};
use std::path::Path;
use vnfm_signature::{Signer, Trust};

const ITEMS: &[Column] = &[
    ("kind", "/kind"),
    ("name", "/name"),
    ("version", "/version"),
    ("files", "/files"),
    ("bytes", "/bytes"),
    ("sha-256", "/sha256"),
];

pub(super) async fn run(client: &Client, output: Output, command: Arguments) -> Outcome<()> {
    match command {
        Arguments::Create(args) => create::run(output, &args),
        Arguments::Show { file } => {
            let bundle = Bundle::open(&file)?;
            let rows: Vec<Value> = bundle.items().iter().map(row).collect();
            output.list(&rows, ITEMS)
        }
        Arguments::Verify { file, trust, crl } => {
            let bundle = Bundle::open(&file)?;
            let trust = trust.map(|trust| read_trust(&trust, crl.as_deref()));
            let trust = trust.transpose()?;
            let signers = verify(&bundle, &file, trust.as_ref())?;
            let name = file.display().to_string();
            let rows: Vec<Value> = signers
                .iter()
                .map(|signer| signer_row(&name, signer))
                .collect();
            output.list(&rows, SIGNERS)?;
            if trust.is_none() {
                tell(UNCHECKED_SIGNERS);
            }
            Ok(())
        }
        Arguments::Install(args) => install::run(client, output, &args).await,
    }
}

/// Verifies signature, signers and every file; who signed it.
fn verify(bundle: &Bundle, path: &Path, trust: Option<&Trust>) -> Outcome<Vec<Signer>> {
    let trust = trust.map(|trust| (trust, now()));
    let signers = bundle
        .verify_signature(trust)
        .map_err(|fault| Failure::Hinted {
            message: format!(
                "the signature of `{}` is not valid: {fault}",
                path.display()
            ),
            hint: "see docs/how-to/air-gap.md".to_owned(),
        })?;
    let bar = bytes_bar(bundle.bytes(), "verifying");
    let verified = bundle.verify_contents(&bar);
    bar.finish_and_clear();
    verified.map(|()| signers)
}

/// An item for people and scripts; the hash is that of its only file.
fn row(item: &Item) -> Value {
    let sha256 = (item.files.len() == 1).then(|| item.files[0].sha256.clone());
    json!({"kind": item.kind.noun(), "name": item.name, "version": item.version, "vnfdId": item.vnfd_id,
        "files": item.files.len(), "bytes": item.bytes(), "sha256": sha256})
}
