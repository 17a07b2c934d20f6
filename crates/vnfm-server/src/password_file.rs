//! Passwords of the server's own logins: one per file, so that none is in the configuration.

use anyhow::{Context as _, bail};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use vnfm_types::Secret;

/// Maximum size of the file in bytes, as for secrets that `vnfmctl` reads.
const MAX_BYTES: u64 = 64 << 10;

/// Reads the password in a file, without the end of its line.
///
/// # Errors
///
/// If the file cannot be read, is empty, or is larger than 64 KiB.
pub(crate) fn read(path: &Path) -> anyhow::Result<Secret> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
        .with_context(|| format!("cannot read the password file `{}`", path.display()))?;
    if text.len() as u64 > MAX_BYTES {
        bail!(
            "the password file `{}` is larger than {MAX_BYTES} bytes",
            path.display()
        );
    }
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        bail!("the password file `{}` is empty", path.display());
    }
    Ok(Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::read;
    use std::path::Path;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the password file `/dev/zero` is larger than 65536 bytes"
        );
    }
}
