//! What a command reads on behalf of its user, from files and from standard input. It is bounded: a wrong path such as
//! `/dev/zero`, or a file of many GiB, is refused instead of filling the memory.

use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Maximum size in bytes of a file that is read into memory: requests, inventories, logins, certificates, manifests. The
/// server accepts bodies of at most 1 MiB; lists of revoked certificates are the largest.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// A file of at most [`MAX_FILE_BYTES`].
///
/// # Errors
///
/// If the file cannot be read, or is larger: with its size, if it is known, and the limit.
pub fn file(path: &Path) -> Result<Vec<u8>> {
    file_of(path, MAX_FILE_BYTES)
}

/// As [`file()`], as text.
///
/// # Errors
///
/// As [`file()`], or if it is not UTF-8.
pub fn text(path: &Path) -> Result<String> {
    file(path).and_then(utf8)
}

/// As [`text`], with another limit in bytes.
///
/// # Errors
///
/// As [`text`].
pub fn text_of(path: &Path, max_bytes: u64) -> Result<String> {
    file_of(path, max_bytes).and_then(utf8)
}

/// All of a stream of at most `max_bytes`.
///
/// # Errors
///
/// If it cannot be read, or is longer.
pub fn stream(input: impl Read, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = input
        .take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if read as u64 > max_bytes {
        let detail = format!("it is larger than {max_bytes} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, detail));
    }
    Ok(bytes)
}

fn file_of(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let opened = std::fs::File::open(path)?;
    let size = opened.metadata()?.len();
    if size > max_bytes {
        let detail = format!("it is larger than {max_bytes} bytes: it has {size}");
        return Err(Error::new(ErrorKind::FileTooLarge, detail));
    }
    // The size of a device is 0, and a file may grow.
    stream(opened, max_bytes)
}

pub(crate) fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::{MAX_FILE_BYTES, file, text, text_of};
    use std::io::ErrorKind;
    use std::path::Path;

    #[test]
    fn a_file_is_read_up_to_the_limit() {
        let given = tempfile::NamedTempFile::new().unwrap();
        given.as_file().set_len(MAX_FILE_BYTES).unwrap();
        assert_eq!(file(given.path()).unwrap().len() as u64, MAX_FILE_BYTES);
        given.as_file().set_len(MAX_FILE_BYTES + 1).unwrap();
        let error = text(given.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(
            error.to_string(),
            "it is larger than 16777216 bytes: it has 16777217"
        );
    }

    #[test]
    fn a_device_without_an_end_is_refused() {
        let error = text_of(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 1000 bytes");
    }

    #[test]
    fn binary_content_is_no_text() {
        let given = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(given.path(), [0xff, 0xfe]).unwrap();
        assert_eq!(
            text(given.path()).unwrap_err().to_string(),
            "it is not UTF-8 text"
        );
    }
}
