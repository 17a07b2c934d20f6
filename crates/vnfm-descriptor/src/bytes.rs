//! The bytes under an archive: in memory or in a file, read from wherever a reader wants.
//!
//! ```text
//! Bytes ── reader() ── Reader, a clone for each file that is read ── opens the file at its first read
//! ```
//! So the archive's directory is parsed once, any number of threads read at a time, and a package that nobody
//! reads holds no file open.

use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// Where the bytes are.
#[derive(Debug, Clone)]
pub(crate) enum Bytes {
    /// In memory.
    Memory(Arc<[u8]>),
    /// In a file.
    File(Arc<Path>),
}

/// What is read from a file at once where little is asked for: names and sizes come in small pieces.
const HELD: usize = 32 << 10;
/// What is hashed at once.
const PIECE: usize = 128 << 10;

impl Bytes {
    /// A reader at the beginning.
    pub(crate) fn reader(&self) -> Reader {
        Reader {
            bytes: self.clone(),
            file: None,
            at: 0,
            held: Vec::new(),
            from: 0,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> io::Result<u64> {
        match self {
            Bytes::Memory(bytes) => Ok(bytes.len() as u64),
            Bytes::File(path) => Ok(std::fs::metadata(path)?.len()),
        }
    }

    /// The last ones, at most `most`.
    pub(crate) fn tail(&self, most: u64) -> io::Result<Vec<u8>> {
        let mut reader = self.reader();
        reader.seek(SeekFrom::Start(self.len()?.saturating_sub(most)))?;
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Their SHA-256, in hexadecimal.
    pub(crate) fn sha256(&self) -> io::Result<String> {
        let mut hash = Sha256::new();
        let mut reader = self.reader();
        let mut piece = vec![0; PIECE];
        loop {
            match reader.read(&mut piece)? {
                0 => return Ok(super::archive::hex(&hash.finalize())),
                count => hash.update(&piece[..count]),
            }
        }
    }
}

/// Reads them. A clone stands where this one stands, and opens the file anew.
#[derive(Debug)]
pub(crate) struct Reader {
    bytes: Bytes,
    file: Option<File>,
    at: u64,
    /// Bytes of the file that were read already, and where they begin.
    held: Vec<u8>,
    from: u64,
}

impl Clone for Reader {
    fn clone(&self) -> Self {
        Reader {
            at: self.at,
            ..self.bytes.reader()
        }
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let taken = match self.bytes.clone() {
            Bytes::Memory(bytes) => copied(&bytes, self.at, buffer),
            Bytes::File(path) => self.read_file(&path, buffer)?,
        };
        self.at += taken as u64;
        Ok(taken)
    }
}

impl Reader {
    fn read_file(&mut self, path: &Path, buffer: &mut [u8]) -> io::Result<usize> {
        let held = self
            .at
            .checked_sub(self.from)
            .map_or(0, |at| copied(&self.held, at, buffer));
        if held > 0 || buffer.is_empty() {
            return Ok(held);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(path)?),
        };
        file.seek(SeekFrom::Start(self.at))?;
        if buffer.len() >= HELD {
            return file.read(buffer);
        }
        self.held.resize(HELD, 0);
        let count = file.read(&mut self.held)?;
        self.held.truncate(count);
        self.from = self.at;
        Ok(copied(&self.held, 0, buffer))
    }
}

/// Copies from `at` on; how many bytes that were.
fn copied(bytes: &[u8], at: u64, buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(at)
        .ok()
        .and_then(|at| bytes.get(at..))
        .unwrap_or_default();
    let count = rest.len().min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.bytes.len()?, by),
            SeekFrom::Current(by) => (self.at, by),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the beginning");
        self.at = base.checked_add_signed(by).ok_or_else(before)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same in memory and in a file.
    fn both(bytes: &[u8]) -> (tempfile::NamedTempFile, [Bytes; 2]) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let sources = [Bytes::Memory(bytes.into()), Bytes::File(file.path().into())];
        (file, sources)
    }

    #[test]
    fn small_and_large_pieces_come_from_anywhere() {
        let all: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let (_file, sources) = both(&all);
        for source in &sources {
            let mut reader = source.reader();
            for (at, count) in [
                (0, 4),
                (3, 40_000),
                (32_764, 8),
                (32_768, 8),
                (2, 4),
                (399_998, 8),
            ] {
                reader.seek(SeekFrom::Start(at as u64)).unwrap();
                let mut found = vec![0; count];
                let mut taken = 0;
                while let Ok(more @ 1..) = reader.read(&mut found[taken..]) {
                    taken += more;
                }
                assert_eq!(
                    found[..taken],
                    all[at..all.len().min(at + count)],
                    "{count} at {at}"
                );
            }
            assert_eq!(
                reader.seek(SeekFrom::End(-4)).unwrap(),
                all.len() as u64 - 4
            );
            let mut rest = Vec::new();
            reader.clone().read_to_end(&mut rest).unwrap();
            assert_eq!(
                rest,
                all[all.len() - 4..],
                "a clone stands where it was made"
            );
            assert!(reader.seek(SeekFrom::Current(i64::MIN)).is_err());
            assert_eq!(source.tail(6).unwrap(), all[all.len() - 6..]);
            assert_eq!(source.tail(1 << 40).unwrap(), all);
        }
        assert_eq!(sources[0].sha256().unwrap(), sources[1].sha256().unwrap());
    }
}
