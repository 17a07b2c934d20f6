//! The bytes of an archive, in memory or in a file, with random access.
//!
//! ```text
//! Bytes ── reader() ── Reader, cloned for each file that is read ── opens the file at its first read
//! ```
//! The archive's directory is parsed once, any number of threads can read at the same time, and a package that is not
//! being read holds no file open.

use crate::hexadecimal::hexadecimal;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// The source of an archive's bytes.
#[derive(Debug, Clone)]
pub(crate) enum Bytes {
    Memory(Arc<[u8]>),
    File(Arc<Path>),
}

/// Smaller reads are buffered in blocks of this size, since zip headers are read in small pieces.
const BUFFER_SIZE: usize = 32 << 10;
/// Bytes that show how a file is compressed.
const HEAD_SIZE: u64 = 8;
/// Bytes that are hashed at once.
const CHUNK_SIZE: usize = 128 << 10;

impl Bytes {
    /// A reader positioned at the start.
    pub(crate) fn reader(&self) -> Reader {
        Reader {
            bytes: self.clone(),
            file: None,
            position: 0,
            buffered: Vec::new(),
            buffer_start: 0,
        }
    }

    /// Size of the content in bytes.
    pub(crate) fn len(&self) -> io::Result<u64> {
        match self {
            Bytes::Memory(bytes) => Ok(bytes.len() as u64),
            Bytes::File(path) => Ok(std::fs::metadata(path)?.len()),
        }
    }

    /// The first bytes, at most [`HEAD_SIZE`]; none if they cannot be read.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.reader().take(HEAD_SIZE).read_to_end(&mut bytes) {
            Ok(_) => bytes,
            Err(_) => Vec::new(),
        }
    }

    /// The last bytes, at most `max`.
    pub(crate) fn tail(&self, max: u64) -> io::Result<Vec<u8>> {
        let mut reader = self.reader();
        reader.seek(SeekFrom::Start(self.len()?.saturating_sub(max)))?;
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// SHA-256 of all bytes, in hexadecimal.
    pub(crate) fn sha256(&self) -> io::Result<String> {
        let mut hash = Sha256::new();
        let mut reader = self.reader();
        let mut chunk = vec![0; CHUNK_SIZE];
        loop {
            match reader.read(&mut chunk)? {
                0 => return Ok(hexadecimal(&hash.finalize())),
                count => hash.update(&chunk[..count]),
            }
        }
    }
}

/// A reader of [`Bytes`]. A clone starts at the same position and opens the file itself.
#[derive(Debug)]
pub(crate) struct Reader {
    bytes: Bytes,
    file: Option<File>,
    position: u64,
    /// Bytes already read from the file; the first is at `buffer_start`.
    buffered: Vec<u8>,
    buffer_start: u64,
}

impl Clone for Reader {
    fn clone(&self) -> Self {
        Reader {
            position: self.position,
            ..self.bytes.reader()
        }
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let taken = match self.bytes.clone() {
            Bytes::Memory(bytes) => copy_from(&bytes, self.position, buffer),
            Bytes::File(path) => self.read_file(&path, buffer)?,
        };
        self.position += taken as u64;
        Ok(taken)
    }
}

impl Reader {
    fn read_file(&mut self, path: &Path, buffer: &mut [u8]) -> io::Result<usize> {
        let copied = self
            .position
            .checked_sub(self.buffer_start)
            .map_or(0, |at| copy_from(&self.buffered, at, buffer));
        if copied > 0 || buffer.is_empty() {
            return Ok(copied);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(path)?),
        };
        file.seek(SeekFrom::Start(self.position))?;
        if buffer.len() >= BUFFER_SIZE {
            return file.read(buffer);
        }
        self.buffered.resize(BUFFER_SIZE, 0);
        let count = file.read(&mut self.buffered)?;
        self.buffered.truncate(count);
        self.buffer_start = self.position;
        Ok(copy_from(&self.buffered, 0, buffer))
    }
}

/// Copies the bytes from offset `at` on, as far as they fit; returns how many.
fn copy_from(bytes: &[u8], at: u64, buffer: &mut [u8]) -> usize {
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
            SeekFrom::Current(by) => (self.position, by),
        };
        let before_start =
            || io::Error::new(io::ErrorKind::InvalidInput, "seek to before the start");
        self.position = base.checked_add_signed(by).ok_or_else(before_start)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same bytes in memory and in a file.
    fn both(bytes: &[u8]) -> (tempfile::NamedTempFile, [Bytes; 2]) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let sources = [Bytes::Memory(bytes.into()), Bytes::File(file.path().into())];
        (file, sources)
    }

    #[test]
    fn reads_of_any_size_and_position_return_the_bytes() {
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
                "a clone starts at the same position"
            );
            assert!(reader.seek(SeekFrom::Current(i64::MIN)).is_err());
            assert_eq!(source.tail(6).unwrap(), all[all.len() - 6..]);
            assert_eq!(source.tail(1 << 40).unwrap(), all);
        }
        assert_eq!(sources[0].sha256().unwrap(), sources[1].sha256().unwrap());
    }
}
