//! Files are hashed. Every file of an archive is read once: its real size, the archive's checksum, the hash that the
//! manifest states.
//!
//! ```text
//! this thread: unpack, count  ── full pieces ──►  another one: hash     (large files)
//!                             ◄── used pieces ──
//! ```
//! Memory is that of a few pieces, however large a file is. What it takes at most is read, and no more: a bomb ends
//! the reading.

use crate::archive::{Algorithm, Archive, Expected, ReadError, Zip, hex};
use crate::finding::{Finding, Sink, Span, codes};
use crate::limits::Limits;
use sha2::digest::DynDigest;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

/// Bytes that are handed on at once: what was read is still in the processor's cache when it is hashed.
const PIECE: usize = 128 << 10;
/// Pieces that are under way between the two threads at most.
const PIECES: usize = 4;
/// Files from this size on are hashed in a thread of their own.
const LARGE: u64 = 4 << 20;
/// Bytes above which it counts how densely they are packed.
const DENSE: u64 = 1 << 20;

impl Archive {
    /// Reads every file once: real sizes, CRCs, and the hashes that the manifest states.
    pub(crate) fn verify(
        &self,
        expected: &BTreeMap<String, Expected>,
        limits: &Limits,
        sink: &mut Sink,
    ) {
        let mut zip = self.zip.clone();
        let mut left = limits.total_bytes;
        for (path, &index) in &self.entries {
            match verify_one(&mut zip, index, path, (expected.get(path), limits, left)) {
                Ok(bytes) => left = left.saturating_sub(bytes),
                Err(finding) => {
                    let bomb = finding.code == codes::ZIP_BOMB;
                    sink.add(finding);
                    if bomb {
                        return;
                    }
                }
            }
        }
    }
}

impl Archive {
    /// A file's hash, in hexadecimal.
    pub(crate) fn hash(&self, path: &str, algorithm: Algorithm) -> Result<String, ReadError> {
        let mut hashing = Hashing::new(algorithm);
        self.copy(path, &mut hashing)?;
        Ok(hashing.hash())
    }
}

/// Hashes what is written.
pub(crate) struct Hashing(Box<dyn DynDigest + Send>);

impl Hashing {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        Self(algorithm.hasher())
    }

    /// The hash, in hexadecimal.
    pub(crate) fn hash(self) -> String {
        hex(&self.0.finalize())
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

/// Reads one entry to its end; gives the bytes that it became.
fn verify_one(
    zip: &mut Zip,
    index: usize,
    path: &str,
    (expected, limits, left): (Option<&Expected>, &Limits, u64),
) -> Result<u64, Finding> {
    let mut file = zip.by_index(index).map_err(|error| broken(path, &error))?;
    let (stated, packed) = (file.size(), file.compressed_size().max(1));
    let reading = Reading {
        file: &mut file,
        path,
        packed,
        left,
        limits,
    };
    let (total, hash) = match expected.map(|expected| expected.algorithm) {
        None => (reading.whole(&mut |piece| piece)?, None),
        Some(algorithm) if stated < LARGE => here(reading, algorithm)?,
        Some(algorithm) => aside(reading, algorithm)?,
    };
    if total != stated {
        let message = format!("it has {total} bytes, and the archive says {stated}");
        return Err(broken(path, &message));
    }
    match (expected, hash) {
        (Some(expected), Some(real)) if !expected.hash.eq_ignore_ascii_case(&real) => {
            let message =
                format!("`{path}` does not have the hash that the manifest states, but {real}");
            Err(
                Finding::new(codes::MANIFEST_HASH, expected.span.clone(), message)
                    .hint("the file was changed after the manifest was written"),
            )
        }
        _ => Ok(total),
    }
}

fn broken(path: &str, reason: &dyn std::fmt::Display) -> Finding {
    Finding::new(
        codes::ZIP,
        Span::file(path),
        format!("the entry cannot be read: {reason}"),
    )
}

/// Some bytes of a file.
struct Piece {
    bytes: Vec<u8>,
    /// How many of them count.
    count: usize,
}

impl Piece {
    fn new() -> Self {
        Piece {
            bytes: vec![0; PIECE],
            count: 0,
        }
    }
}

/// A file that is being read.
struct Reading<'a> {
    file: &'a mut dyn Read,
    path: &'a str,
    /// Its bytes in the archive, at least 1.
    packed: u64,
    /// What all files together may still become.
    left: u64,
    limits: &'a Limits,
}

impl Reading<'_> {
    /// Hands every piece to `take`, which gives one back for what comes next; tells how many bytes there were.
    fn whole(self, take: &mut dyn FnMut(Piece) -> Piece) -> Result<u64, Finding> {
        let (mut piece, mut total) = (Piece::new(), 0_u64);
        loop {
            let read = self.file.read(&mut piece.bytes);
            piece.count = read.map_err(|error| broken(self.path, &error))?;
            if piece.count == 0 {
                return Ok(total);
            }
            total += piece.count as u64;
            self.bounded(total)?;
            piece = take(piece);
        }
    }

    fn bounded(&self, total: u64) -> Result<(), Finding> {
        let message = if total > self.left {
            format!(
                "the package becomes larger than {} bytes",
                self.limits.total_bytes
            )
        } else if total > DENSE && total / self.packed > self.limits.ratio {
            let most = self.limits.ratio;
            format!("the entry becomes more than {most} times as large as it is packed")
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

/// How many bytes a file has, and their hash.
type Hashed = (u64, Option<String>);

/// Reads and hashes by turns.
fn here(reading: Reading<'_>, algorithm: Algorithm) -> Result<Hashed, Finding> {
    let mut hash = algorithm.hasher();
    let total = reading.whole(&mut |piece| {
        hash.update(&piece.bytes[..piece.count]);
        piece
    })?;
    Ok((total, Some(hex(&hash.finalize()))))
}

/// Reads here, and hashes in another thread meanwhile; by turns where the system has no thread for it.
fn aside(reading: Reading<'_>, algorithm: Algorithm) -> Result<Hashed, Finding> {
    let path = reading.path;
    std::thread::scope(|scope| {
        let (full, filled) = sync_channel(PIECES);
        let (used, empty) = sync_channel(PIECES);
        let hashing = move || hash(&filled, &used, algorithm);
        let Ok(thread) = Builder::new().spawn_scoped(scope, hashing) else {
            return here(reading, algorithm);
        };
        let mut made = 1;
        let total = reading.whole(&mut |piece| {
            // Fails only where the other thread is gone, which is said below.
            let _ = full.send(piece);
            if made < PIECES {
                made += 1;
                return Piece::new();
            }
            empty.recv().unwrap_or_else(|_| Piece::new())
        });
        drop(full);
        let hashed = thread
            .join()
            .map_err(|_| broken(path, &"the thread that hashed it ended"))?;
        Ok((total?, Some(hashed)))
    })
}

/// Hashes pieces as they come, and gives them back.
fn hash(filled: &Receiver<Piece>, used: &SyncSender<Piece>, algorithm: Algorithm) -> String {
    let mut hash = algorithm.hasher();
    for piece in filled {
        hash.update(&piece.bytes[..piece.count]);
        // Nobody takes the last ones back.
        let _ = used.try_send(piece);
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    const SIZES: [u64; 3] = [PIECE as u64, LARGE + 1, 3 * LARGE];

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
        };
        let mut sink = Sink::default();
        archive.verify(&[("a".to_owned(), expected)].into(), limits, &mut sink);
        sink.all().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_hash_is_the_same_in_this_thread_and_in_another() {
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
                let right = hex(&hash.finalize());
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
    fn a_bomb_ends_the_reading_in_both_threads() {
        for size in SIZES {
            let archive = archive(size, CompressionMethod::Deflated);
            let limits = Limits {
                total_bytes: size - 1,
                ..Limits::default()
            };
            let found = verified(&archive, Algorithm::Sha256, "00", &limits);
            assert_eq!(found.len(), 1);
            assert!(
                found[0].contains("E-ZIP-BOMB") && found[0].contains("larger than"),
                "{found:?}"
            );
        }
    }
}
