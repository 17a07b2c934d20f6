//! Checks the write-ahead log before SQLite opens it: SQLite silently drops everything after the first damaged frame.
//! After a crash that is right only for transactions that were not acknowledged.
//!
//! ```text
//! header ─ frame ─ frame(commit) ─ frame ─ frame(commit) ─ … ─ frame(commit) │ what was being written
//!                                                              acknowledged ─┘
//! ```
//! Two sources show how far acknowledged transactions reach. A note next to the database has the last one, written after
//! each commit; it costs no fsync, so a machine crash may leave an older note, which is still true. And a transaction
//! starts after the fsync of the previous one: if a frame is damaged and two transactions end after it, at least the
//! first of them was acknowledged. A log that lost any of these is rejected, with a hint.
//!
//! The note also has a checksum of the page in the last acknowledged frame. A missing log was either checkpointed by
//! SQLite, which is fine, or removed: the page in the database tells which.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vnfm_core::ports::StoreError;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The magic number without its last bit, which selects the byte order of checksums.
const MAGIC: u32 = 0x377f_0682;

/// The log's generation (its salts), its number of acknowledged frames, and the page in the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    salts: [u32; 2],
    frames: u32,
    page: Option<Page>,
}

/// A page as an acknowledged transaction wrote it. A database with that page contains the
/// transaction, even without the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    number: u32,
    sum: [u32; 2],
}

/// The note next to the database, and the files it is derived from.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    note: File,
    index: Arc<File>,
    log: Option<File>,
    last: Option<Mark>,
}

impl Acknowledged {
    /// Opens the note of the open database at `path`. Also returns the log's index, which must stay open as long as a
    /// connection: closing it would drop all POSIX locks that SQLite holds on it in this process, and another process
    /// that reads the database would then recreate it under us.
    pub(crate) fn open(path: &Path) -> Result<(Self, Arc<File>), StoreError> {
        let path_of_note = companion(path, "-acked");
        let note = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path_of_note);
        let path_of_index = companion(path, "-shm");
        let open_error = |path: &Path, error: &io::Error| {
            StoreError::Unavailable(format!("cannot open `{}`: {error}", path.display()))
        };
        let note = note.map_err(|error| open_error(&path_of_note, &error))?;
        let index =
            File::open(&path_of_index).map_err(|error| open_error(&path_of_index, &error))?;
        let index = Arc::new(index);
        let log = File::open(companion(path, "-wal")).ok();
        Ok((
            Self {
                note,
                index: index.clone(),
                log,
                last: None,
            },
            index,
        ))
    }

    /// Notes what the log's index shows as committed; the caller excludes writers. A failure only logs a warning: an
    /// older note is still true.
    pub(crate) fn note(&mut self) {
        let Ok(mark) = committed(&self.index, self.log.as_ref()) else {
            return;
        };
        if self.last == Some(mark) {
            return;
        }
        match self.note.write_all_at(&mark.bytes(), 0) {
            Ok(()) => self.last = Some(mark),
            Err(error) => tracing::warn!(%error, "could not save the acknowledgement"),
        }
    }

    /// Like [`Self::note`], with an fsync. Needed before the log is truncated or removed: after a power loss, an older note
    /// would describe a log that no longer exists.
    pub(crate) fn note_durably(&mut self) {
        self.note();
        if let Err(error) = self.note.sync_data() {
            tracing::warn!(%error, "could not sync the acknowledgement");
        }
    }
}

impl Drop for Acknowledged {
    /// The last connection to close checkpoints the log and removes it.
    fn drop(&mut self) {
        self.note_durably();
    }
}

impl Mark {
    /// Eight words: salts, frames, the page's number and checksum, and a checksum of the words before it. Older binaries
    /// wrote only the first three words, so that the last checksum does not match.
    fn bytes(self) -> [u8; 32] {
        let page = self.page.unwrap_or(Page {
            number: 0,
            sum: [0, 0],
        });
        let words = [
            self.salts[0],
            self.salts[1],
            self.frames,
            page.number,
            page.sum[0],
            page.sum[1],
        ];
        let mut bytes = [0; 32];
        put(&mut bytes, &words);
        let sum = checksum([0, 0], &bytes[..24], true);
        put(&mut bytes[24..], &sum);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let salts = [word(bytes, 0)?, word(bytes, 4)?];
        Some(Self {
            salts,
            frames: word(bytes, 8)?,
            page: Page::parse(bytes),
        })
    }
}

impl Page {
    /// The page in a note; `None` in a note of an older binary.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let sum = checksum([0, 0], bytes.get(..24)?, true);
        let is_intact = word(bytes, 24)? == sum[0] && word(bytes, 28)? == sum[1];
        let page = Self {
            number: word(bytes, 12)?,
            sum: [word(bytes, 16)?, word(bytes, 20)?],
        };
        (is_intact && page.number > 0).then_some(page)
    }

    /// True if the database at `path` contains the page as noted.
    fn is_in(self, path: &Path) -> bool {
        let read = || -> io::Result<Vec<u8>> {
            let database = File::open(path)?;
            let mut size = [0; 2];
            database.read_exact_at(&mut size, 16)?;
            let size = page_size(u16::from_be_bytes(size));
            let mut page = vec![0; size as usize];
            database.read_exact_at(&mut page, u64::from(self.number - 1) * u64::from(size))?;
            Ok(page)
        };
        read().is_ok_and(|page| checksum([0, 0], &page, true) == self.sum)
    }
}

/// Decodes SQLite's two-byte page size, in which 1 means 65 536.
fn page_size(stored_size: u16) -> u32 {
    if stored_size == 1 {
        65_536
    } else {
        stored_size.into()
    }
}

fn put(bytes: &mut [u8], words: &[u32]) {
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

/// Reads `mxFrame` and the salts from the index's header, and the page in the last frame from the log.
fn committed(index: &File, log: Option<&File>) -> io::Result<Mark> {
    let mut header = [0; 48];
    index.read_exact_at(&mut header, 0)?;
    // The count is in native byte order; the salts are copied from the log as they are.
    let frames = word(&header, 16)
        .map(u32::to_ne_bytes)
        .map_or(0, u32::from_be_bytes);
    let salt = |at: usize| word(&header, at).unwrap_or_default();
    let size = page_size(u16::from_ne_bytes([header[14], header[15]]));
    let page = log
        .filter(|_| frames > 0)
        .and_then(|log| last_page(log, frames, size).ok());
    Ok(Mark {
        salts: [salt(32), salt(36)],
        frames,
        page,
    })
}

/// The page in the frame number `frames`.
fn last_page(log: &File, frames: u32, size: u32) -> io::Result<Page> {
    let mut frame = vec![0; FRAME_HEADER + size as usize];
    let at = HEADER as u64 + u64::from(frames - 1) * frame.len() as u64;
    log.read_exact_at(&mut frame, at)?;
    let number = word(&frame, 0).unwrap_or_default();
    Ok(Page {
        number,
        sum: checksum([0, 0], &frame[FRAME_HEADER..], true),
    })
}

/// Checks the log of the database at `path`, if there is one.
///
/// # Errors
///
/// `Broken` if acknowledged transactions are damaged or missing; nothing is changed.
pub(crate) fn check(path: &Path) -> Result<(), StoreError> {
    let log = companion(path, "-wal");
    let noted = fs::read(companion(path, "-acked"))
        .ok()
        .and_then(|bytes| Mark::parse(&bytes));
    let bytes = match fs::read(&log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let reason = format!("cannot read `{}`: {error}", log.display());
            return Err(StoreError::Unavailable(reason));
        }
        Ok(bytes) => bytes,
    };
    if bytes.is_empty() {
        return check_not_lost(path, noted);
    }
    let Some(found) = damage(&bytes, noted) else {
        return Ok(());
    };
    Err(StoreError::Broken(format!(
        "its write-ahead log `{}` is damaged: {found}; hint: nothing was changed: repair the disk and bring both files \
         back as they were, or restore a backup; to give up the transactions from there on instead, keep a copy of \
         the folder and run `truncate -s {} {}` and `rm {}`",
        log.display(),
        found.offset,
        log.display(),
        companion(path, "-acked").display(),
    )))
}

/// Checks that a missing or empty log was checkpointed: the database contains the last acknowledged page.
fn check_not_lost(path: &Path, noted: Option<Mark>) -> Result<(), StoreError> {
    let Some((Mark { frames, .. }, page)) = noted.and_then(|mark| Some((mark, mark.page?))) else {
        return Ok(());
    };
    if page.is_in(path) {
        return Ok(());
    }
    Err(StoreError::Broken(format!(
        "its write-ahead log `{}` is missing or empty, and the database lacks what was in it: {frames} frames were \
         acknowledged, as `{}` says, so the changes that were accepted last are lost; hint: nothing was changed: bring \
         the log back as it was, or restore a backup (`vnfm-server restore FILE`); to give up what was lost, run \
         `vnfm-server accept-loss`",
        companion(path, "-wal").display(),
        companion(path, "-acked").display(),
    )))
}

/// The first damaged frame, before the end of the acknowledged transactions.
struct Damage {
    offset: usize,
    frame: usize,
    acknowledged: Option<u32>,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "frame {} at byte {} is damaged", self.frame, self.offset)?;
        match self.acknowledged {
            Some(frames) => write!(f, ", and {frames} frames were acknowledged"),
            None => write!(f, ", and acknowledged transactions follow it"),
        }
    }
}

fn damage(bytes: &[u8], noted: Option<Mark>) -> Option<Damage> {
    let has_frames = bytes.len() >= HEADER + FRAME_HEADER;
    let Some(header) = Header::parse(bytes) else {
        // The header is durable before the first frame is written.
        return has_frames.then_some(Damage {
            offset: 0,
            frame: 0,
            acknowledged: None,
        });
    };
    let frames: Vec<_> = bytes[HEADER..]
        .chunks_exact(FRAME_HEADER + header.page)
        .collect();
    let intact = header.intact(&frames);
    let after_damage = frames[intact..]
        .iter()
        .filter(|frame| header.ends_a_transaction(frame))
        .count();
    let acknowledged = noted
        .filter(|mark| mark.salts == header.salts)
        .map(|mark| mark.frames);
    let lost = acknowledged.is_some_and(|frames| (frames as usize) > intact);
    let offset = HEADER + intact * (FRAME_HEADER + header.page);
    let found = Damage {
        offset,
        frame: intact + 1,
        acknowledged: acknowledged.filter(|_| lost),
    };
    // Failed commits, as after I/O errors, leave complete transactions behind the end; the note tells them apart.
    let all_noted = acknowledged.is_some_and(|frames| frames as usize == intact);
    (lost || (after_damage > 1 && !all_noted)).then_some(found)
}

/// The log's header, if its checksum is right.
struct Header {
    page: usize,
    salts: [u32; 2],
    sum: [u32; 2],
    big: bool,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let magic = word(bytes, 0)?;
        let big = magic & 1 == 1;
        let sum = checksum([0, 0], bytes.get(..24)?, big);
        let header = Self {
            page: usize::try_from(word(bytes, 8)?).ok()?,
            salts: [word(bytes, 16)?, word(bytes, 20)?],
            sum,
            big,
        };
        let stored = [word(bytes, 24)?, word(bytes, 28)?];
        (magic & !1 == MAGIC && sum == stored && header.page >= 512).then_some(header)
    }

    /// Number of leading frames that belong to this generation and have the right checksum.
    fn intact(&self, frames: &[&[u8]]) -> usize {
        let mut sum = self.sum;
        frames
            .iter()
            .take_while(|frame| {
                sum = checksum(sum, &frame[..8], self.big);
                sum = checksum(sum, &frame[FRAME_HEADER..], self.big);
                self.is_current(frame)
                    && word(frame, 16) == Some(sum[0])
                    && word(frame, 20) == Some(sum[1])
            })
            .count()
    }

    fn is_current(&self, frame: &[u8]) -> bool {
        word(frame, 8) == Some(self.salts[0]) && word(frame, 12) == Some(self.salts[1])
    }

    /// True even if one of the salts is damaged: frames of other generations differ in both.
    fn ends_a_transaction(&self, frame: &[u8]) -> bool {
        let mine = [8, 12]
            .into_iter()
            .zip(self.salts)
            .any(|(at, salt)| word(frame, at) == Some(salt));
        mine && word(frame, 4) != Some(0)
    }
}

fn checksum(from: [u32; 2], bytes: &[u8], big: bool) -> [u32; 2] {
    let [mut first, mut second] = from;
    for pair in bytes.chunks_exact(8) {
        let read = |at| {
            let word = word(pair, at).unwrap_or_default();
            if big { word } else { word.swap_bytes() }
        };
        first = first.wrapping_add(read(0)).wrapping_add(second);
        second = second.wrapping_add(read(4)).wrapping_add(first);
    }
    [first, second]
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// The file next to the database whose name has the suffix `end`.
pub(crate) fn companion(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
