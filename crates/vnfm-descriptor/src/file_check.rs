//! Verifies every file of an archive in a single pass: actual size, CRC, and the hash that the manifest states.
//!
//! ```text
//! this thread: unpack, count  ── full chunks ──►  second thread: hash     (large files)
//!                             ◄── used chunks ──
//! ```
//! Memory is limited to a few chunks, however large the file. Reading stops at the limits, so a
//! zip bomb is not unpacked.

use crate::archive::{Archive, ReadError, Zip};
use crate::codes;
use crate::finding::{Finding, Span};
use crate::hashes::{Algorithm, Expected, ExpectedHashes};
use crate::hexadecimal::hexadecimal;
use crate::limits::Limits;
use crate::sink::Sink;
use sha2::digest::DynDigest;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

/// Size of a chunk in bytes: small enough to be in the CPU cache still when it is hashed.
const CHUNK_SIZE: usize = 128 << 10;
/// Size of the chunk for a small file, in bytes. The size that an archive states may be wrong.
const SMALL_CHUNK_SIZE: usize = 8 << 10;
/// Maximum number of chunks between the two threads.
const MAX_CHUNKS: usize = 4;
/// Files of at least this size (bytes) are hashed in a second thread.
const PARALLEL_HASH_MIN: u64 = 4 << 20;
/// The compression ratio is checked only for files larger than this, in bytes.
const RATIO_CHECK_MIN: u64 = 1 << 20;

impl Archive {
    /// Reads every file once: real sizes, CRCs, and the hashes that the manifest states.
    pub(crate) fn verify(&self, expected: &ExpectedHashes, limits: &Limits, sink: &mut Sink) {
        let mut zip = self.zip.clone();
        let mut remaining = limits.total_bytes;
        for (path, &index) in &self.entries {
            match verify_entry(
                &mut zip,
                index,
                path,
                (expected.by_path.get(path), limits, remaining),
            ) {
                Ok(bytes) => remaining = remaining.saturating_sub(bytes),
                Err(finding) => {
                    let bomb = finding.code == codes::ZIP_BOMB;
                    sink.add(finding);
                    if bomb {
                        return;
                    }
                }
            }
        }
        for (path, expected) in &expected.more {
            // Files that cannot be read are reported already.
            if let Ok(real) = self.hash(path, expected.algorithm) {
                expected
                    .differs(path, &real)
                    .into_iter()
                    .for_each(|finding| sink.add(finding));
            }
        }
    }
}

impl Archive {
    /// The hash of a file in hexadecimal.
    ///
    /// # Errors
    /// The file is missing or damaged.
    pub fn hash(&self, path: &str, algorithm: Algorithm) -> Result<String, ReadError> {
        let mut hashing = Hashing::new(algorithm);
        self.copy(path, &mut hashing)?;
        Ok(hashing.hash())
    }
}

/// A writer that hashes the bytes.
pub(crate) struct Hashing(Box<dyn DynDigest + Send>);

impl Hashing {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        Self(algorithm.hasher())
    }

    /// Ends hashing; returns the hash in hexadecimal.
    pub(crate) fn hash(self) -> String {
        hexadecimal(&self.0.finalize())
    }
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads an entry completely; returns its actual size.
fn verify_entry(
    zip: &mut Zip,
    index: usize,
    path: &str,
    (expected, limits, remaining): (Option<&Expected>, &Limits, u64),
) -> Result<u64, Finding> {
    let mut file = zip.by_index(index).map_err(|error| broken(path, &error))?;
    let (stated, packed) = (file.size(), file.compressed_size().max(1));
    let reader = FileVerifier {
        file: &mut file,
        path,
        packed,
        remaining,
        limits,
        chunk_size: if stated < SMALL_CHUNK_SIZE as u64 {
            SMALL_CHUNK_SIZE
        } else {
            CHUNK_SIZE
        },
    };
    let (total, hash) = match expected.map(|expected| expected.algorithm) {
        None => (reader.read_all(&mut |chunk| chunk)?, None),
        Some(algorithm) if stated < PARALLEL_HASH_MIN => hash_inline(reader, algorithm)?,
        Some(algorithm) => hash_in_thread(reader, algorithm)?,
    };
    if total != stated {
        let message = format!("it has {total} bytes, but the archive states {stated}");
        return Err(broken(path, &message));
    }
    match expected.zip(hash) {
        Some((expected, real)) => expected.differs(path, &real).map_or(Ok(total), Err),
        None => Ok(total),
    }
}

fn broken(path: &str, reason: &dyn std::fmt::Display) -> Finding {
    Finding::new(
        codes::ZIP,
        Span::file(path),
        format!("the entry cannot be read: {reason}"),
    )
}

/// A buffer with bytes of a file.
struct Chunk {
    bytes: Vec<u8>,
    /// Number of bytes that are valid.
    length: usize,
}

impl Chunk {
    fn new(size: usize) -> Self {
        Chunk {
            bytes: vec![0; size],
            length: 0,
        }
    }
}

/// A file that is being read.
struct FileVerifier<'a> {
    file: &'a mut dyn Read,
    path: &'a str,
    /// Compressed size in bytes, at least 1.
    packed: u64,
    /// Bytes that all remaining files together may have.
    remaining: u64,
    limits: &'a Limits,
    /// Size of the first chunk in bytes.
    chunk_size: usize,
}

impl FileVerifier<'_> {
    /// Passes every chunk to `take`, which returns a chunk to fill next; returns the number of bytes.
    fn read_all(self, take: &mut dyn FnMut(Chunk) -> Chunk) -> Result<u64, Finding> {
        let (mut chunk, mut total) = (Chunk::new(self.chunk_size), 0_u64);
        loop {
            let read = self.file.read(&mut chunk.bytes);
            chunk.length = read.map_err(|error| broken(self.path, &error))?;
            if chunk.length == 0 {
                return Ok(total);
            }
            total += chunk.length as u64;
            self.check_limits(total)?;
            chunk = take(chunk);
        }
    }

    fn check_limits(&self, total: u64) -> Result<(), Finding> {
        let message = if total > self.remaining {
            format!(
                "the package unpacks to more than {} bytes",
                self.limits.total_bytes
            )
        } else if total > RATIO_CHECK_MIN && total / self.packed > self.limits.ratio {
            let max = self.limits.ratio;
            format!("the entry unpacks to more than {max} times its compressed size")
        } else {
            return Ok(());
        };
        Err(Finding::new(
            codes::ZIP_BOMB,
            Span::file(self.path),
            message,
        ))
    }
}

/// Size in bytes and hash of a file.
type Hashed = (u64, Option<String>);

/// Reads and hashes in this thread.
fn hash_inline(reader: FileVerifier<'_>, algorithm: Algorithm) -> Result<Hashed, Finding> {
    let mut hash = algorithm.hasher();
    let total = reader.read_all(&mut |chunk| {
        hash.update(&chunk.bytes[..chunk.length]);
        chunk
    })?;
    Ok((total, Some(hexadecimal(&hash.finalize()))))
}

/// Reads in this thread and hashes in another; in this thread alone if no other can be started.
fn hash_in_thread(reader: FileVerifier<'_>, algorithm: Algorithm) -> Result<Hashed, Finding> {
    let path = reader.path;
    std::thread::scope(|scope| {
        let (full, filled) = sync_channel(MAX_CHUNKS);
        let (used, empty) = sync_channel(MAX_CHUNKS);
        let hashing = move || hash(&filled, &used, algorithm);
        let Ok(thread) = Builder::new().spawn_scoped(scope, hashing) else {
            return hash_inline(reader, algorithm);
        };
        let mut allocated = 1;
        let total = reader.read_all(&mut |chunk| {
            // Fails only if the other thread ended, which is reported below.
            let _ = full.send(chunk);
            if allocated < MAX_CHUNKS {
                allocated += 1;
                return Chunk::new(CHUNK_SIZE);
            }
            empty.recv().unwrap_or_else(|_| Chunk::new(CHUNK_SIZE))
        });
        drop(full);
        let hashed = thread
            .join()
            .map_err(|_| broken(path, &"the hashing thread ended unexpectedly"))?;
        Ok((total?, Some(hashed)))
    })
}

/// Hashes received chunks and returns them for reuse.
fn hash(filled: &Receiver<Chunk>, used: &SyncSender<Chunk>, algorithm: Algorithm) -> String {
    let mut hash = algorithm.hasher();
    for chunk in filled {
        hash.update(&chunk.bytes[..chunk.length]);
        // The last chunks are not reused.
        let _ = used.try_send(chunk);
    }
    hexadecimal(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashes::StatedBy;
    use std::io::Cursor;
    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    const SIZES: [u64; 3] = [
        CHUNK_SIZE as u64,
        PARALLEL_HASH_MIN + 1,
        3 * PARALLEL_HASH_MIN,
    ];

    fn bytes(size: u64) -> Vec<u8> {
        (0..size)
            .map(|at| u8::try_from(at / 7 % 251).unwrap())
            .collect()
    }

    fn archive(size: u64, method: CompressionMethod) -> Archive {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("a", SimpleFileOptions::default().compression_method(method))
            .unwrap();
        zip.write_all(&bytes(size)).unwrap();
        let zipped = zip.finish().unwrap().into_inner();
        let mut sink = Sink::default();
        Archive::bytes(zipped.into(), &Limits::default(), &mut sink).unwrap()
    }

    fn verified(
        archive: &Archive,
        algorithm: Algorithm,
        hash: &str,
        limits: &Limits,
    ) -> Vec<String> {
        let span = Span::file("a.mf");
        let expected = Expected {
            algorithm,
            hash: hash.to_owned(),
            span,
            stated_by: StatedBy::Manifest,
        };
        let mut hashes = ExpectedHashes::default();
        hashes.add("a".to_owned(), expected);
        let mut sink = Sink::default();
        archive.verify(&hashes, limits, &mut sink);
        sink.all().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn hashes_are_equal_with_and_without_a_second_thread() {
        for (size, method) in SIZES.iter().flat_map(|size| {
            [
                (*size, CompressionMethod::Stored),
                (*size, CompressionMethod::Deflated),
            ]
        }) {
            let archive = archive(size, method);
            for algorithm in [
                Algorithm::Sha224,
                Algorithm::Sha256,
                Algorithm::Sha384,
                Algorithm::Sha512,
            ] {
                let mut hash = algorithm.hasher();
                hash.update(&bytes(size));
                let right = hexadecimal(&hash.finalize());
                let limits = Limits::default();
                assert_eq!(
                    verified(&archive, algorithm, &right.to_uppercase(), &limits),
                    [""; 0]
                );
                let wrong = verified(&archive, algorithm, "00", &limits);
                assert_eq!(wrong.len(), 1);
                assert!(
                    wrong[0].contains(&format!("but {right}")),
                    "{size}: {wrong:?}"
                );
            }
        }
    }

    #[test]
    fn bombs_stop_both_threads() {
        for size in SIZES {
            let archive = archive(size, CompressionMethod::Deflated);
            let limits = Limits {
                total_bytes: size - 1,
                ..Limits::default()
            };
            let found = verified(&archive, Algorithm::Sha256, "00", &limits);
            assert_eq!(found.len(), 1);
            assert!(
                found[0].contains("E-ZIP-BOMB") && found[0].contains("unpacks to more than"),
                "{found:?}"
            );
        }
    }
}
