//! The files that the operator names: configuration, certificates, keys, passwords. Each is read up to a limit, so that
//! one without an end cannot exhaust the memory.

use anyhow::{Context as _, ensure};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use vnfm_types::Secret;

/// Maximum size of a file in bytes; the largest ones are lists of revoked certificates.
const MAX_BYTES: u64 = 16 << 20;
/// Maximum size of a password file in bytes, as for secrets that `vnfmctl` reads.
const MAX_PASSWORD_BYTES: u64 = 64 << 10;

/// Reads a file of at most 16 MiB.
///
/// # Errors
///
/// If the file cannot be read, or is larger; the error names it.
pub(crate) fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    read(path, MAX_BYTES).with_context(|| format!("cannot read `{}`", path.display()))
}

/// As [`bytes()`], as UTF-8.
///
/// # Errors
///
/// Those of [`bytes()`]; if the file is not text.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    String::from_utf8(bytes(path)?).with_context(|| format!("`{}` is not UTF-8", path.display()))
}

/// Reads the password in a file, without the end of its line: passwords are not in the configuration itself.
///
/// # Errors
///
/// If the file cannot be read, is empty, or is larger than 64 KiB.
pub(crate) fn password(path: &Path) -> anyhow::Result<Secret> {
    let action = || format!("cannot read the password file `{}`", path.display());
    let text = read(path, MAX_PASSWORD_BYTES).with_context(action)?;
    let text = String::from_utf8(text).with_context(action)?;
    let text = text.trim_end_matches(['\r', '\n']);
    ensure!(
        !text.is_empty(),
        "the password file `{}` is empty",
        path.display()
    );
    Ok(Secret::new(text))
}

fn read(path: &Path, max: u64) -> anyhow::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(max + 1).read_to_end(&mut content)?;
    ensure!(
        content.len() as u64 <= max,
        "it is larger than {} KiB",
        max >> 10
    );
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::{bytes, password, text};
    use std::path::Path;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let endless = Path::new("/dev/zero");
        for (error, why) in [
            (
                password(endless).unwrap_err(),
                "cannot read the password file `/dev/zero`: it is larger than 64 KiB",
            ),
            (
                text(endless).unwrap_err(),
                "cannot read `/dev/zero`: it is larger than 16384 KiB",
            ),
            (
                bytes(endless).unwrap_err(),
                "cannot read `/dev/zero`: it is larger than 16384 KiB",
            ),
        ] {
            assert_eq!(format!("{error:#}"), why);
        }
    }
}
