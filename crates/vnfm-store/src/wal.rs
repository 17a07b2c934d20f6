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
/// The magic number, but for its last bit, which says how checksums read their words.
const MAGIC: u32 = 0x377f_0682;

/// Which generation of the log, how many of its frames are acknowledged, and the page that the last of them holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    salts: [u32; 2],
    frames: u32,
    page: Option<Page>,
}

/// A page as an acknowledged transaction left it. A database that has it holds that transaction, with or without the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    number: u32,
    sum: [u32; 2],
}

/// The note beside the database, and where it is learned from.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    note: File,
    index: Arc<File>,
    log: Option<File>,
    last: Option<Mark>,
}

impl Acknowledged {
    /// The note of the database at `path`, which is open; the log's index, open as well. Whoever closes the index takes
    /// every lock away that SQLite has on it in this process, as POSIX wants it, and another process that reads the
    /// database then makes it anew beneath us: it stays open as long as a connection does.
    pub(crate) fn open(path: &Path) -> Result<(Self, Arc<File>), StoreError> {
        let path_of_note = beside(path, "-acked");
        let note = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path_of_note);
        let path_of_index = beside(path, "-shm");
        let said = |path: &Path, error: &io::Error| {
            StoreError::Unavailable(format!("cannot open `{}`: {error}", path.display()))
        };
        let note = note.map_err(|error| said(&path_of_note, &error))?;
        let index = File::open(&path_of_index).map_err(|error| said(&path_of_index, &error))?;
        let index = Arc::new(index);
        let log = File::open(beside(path, "-wal")).ok();
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

    /// Notes what the log's index shows as committed; nobody may write to the database meanwhile. What cannot be noted
    /// is told and goes on: a note that is older is true.
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

    /// The same, durably: before the log shrinks or goes, since a note that lost its end with the power would then
    /// speak of a log that nobody has any more.
    pub(crate) fn note_for_good(&mut self) {
        self.note();
        if let Err(error) = self.note.sync_data() {
            tracing::warn!(%error, "could not sync the acknowledgement");
        }
    }
}

impl Drop for Acknowledged {
    /// The last connection that closes folds the log into the database and removes it.
    fn drop(&mut self) {
        self.note_for_good();
    }
}

impl Mark {
    /// Eight words: salts, frames, the page's number and sum, and a sum of those before it, which is wrong where an
    /// older binary wrote the first three words alone.
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

    fn of(bytes: &[u8]) -> Option<Self> {
        let salts = [word(bytes, 0)?, word(bytes, 4)?];
        Some(Self {
            salts,
            frames: word(bytes, 8)?,
            page: Page::of(bytes),
        })
    }
}

impl Page {
    /// The page of a note; none in one of an older binary.
    fn of(bytes: &[u8]) -> Option<Self> {
        let sum = checksum([0, 0], bytes.get(..24)?, true);
        let is_whole = word(bytes, 24)? == sum[0] && word(bytes, 28)? == sum[1];
        let page = Self {
            number: word(bytes, 12)?,
            sum: [word(bytes, 16)?, word(bytes, 20)?],
        };
        (is_whole && page.number > 0).then_some(page)
    }

    /// True where the database at `path` has the page as it was noted.
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

/// A size of pages as SQLite keeps it in two bytes.
fn page_size(kept: u16) -> u32 {
    if kept == 1 { 65_536 } else { kept.into() }
}

fn put(bytes: &mut [u8], words: &[u32]) {
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

/// What the index's header says, `mxFrame` and the salts, as SQLite wrote them; with the page of the last frame.
fn committed(index: &File, log: Option<&File>) -> io::Result<Mark> {
    let mut header = [0; 48];
    index.read_exact_at(&mut header, 0)?;
    // The count is in the machine's order, the salts are copied as they lie in the log.
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

/// The page of the last of so many frames.
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

/// Looks at the log of the database at `path`, if there is one.
///
/// # Errors
///
/// `Broken` where acknowledged transactions are damaged or cut off; nothing was changed.
pub(crate) fn check(path: &Path) -> Result<(), StoreError> {
    let log = beside(path, "-wal");
    let noted = fs::read(beside(path, "-acked"))
        .ok()
        .and_then(|bytes| Mark::of(&bytes));
    let bytes = match fs::read(&log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let why = format!("cannot read `{}`: {error}", log.display());
            return Err(StoreError::Unavailable(why));
        }
        Ok(bytes) => bytes,
    };
    if bytes.is_empty() {
        return not_missed(path, noted);
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
        beside(path, "-acked").display(),
    )))
}

/// That a log which is not there, or is empty, was folded into the database before: what was acknowledged last is in it.
fn not_missed(path: &Path, noted: Option<Mark>) -> Result<(), StoreError> {
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
        beside(path, "-wal").display(),
        beside(path, "-acked").display(),
    )))
}

/// Where acknowledged transactions end too early.
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
    let Some(header) = Header::of(bytes) else {
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
    let whole = header.whole(&frames);
    let behind = frames[whole..]
        .iter()
        .filter(|frame| header.ends_a_transaction(frame))
        .count();
    let acknowledged = noted
        .filter(|mark| mark.salts == header.salts)
        .map(|mark| mark.frames);
    let lost = acknowledged.is_some_and(|frames| (frames as usize) > whole);
    let offset = HEADER + whole * (FRAME_HEADER + header.page);
    let found = Damage {
        offset,
        frame: whole + 1,
        acknowledged: acknowledged.filter(|_| lost),
    };
    // Commits that failed, as on a disk that gives errors, leave whole transactions behind the end; the note knows.
    let all_noted = acknowledged.is_some_and(|frames| frames as usize == whole);
    (lost || (behind > 1 && !all_noted)).then_some(found)
}

/// The log's header, whole.
struct Header {
    page: usize,
    salts: [u32; 2],
    sum: [u32; 2],
    big: bool,
}

impl Header {
    fn of(bytes: &[u8]) -> Option<Self> {
        let magic = word(bytes, 0)?;
        let big = magic & 1 == 1;
        let sum = checksum([0, 0], bytes.get(..24)?, big);
        let header = Self {
            page: usize::try_from(word(bytes, 8)?).ok()?,
            salts: [word(bytes, 16)?, word(bytes, 20)?],
            sum,
            big,
        };
        let told = [word(bytes, 24)?, word(bytes, 28)?];
        (magic & !1 == MAGIC && sum == told && header.page >= 512).then_some(header)
    }

    /// How many frames from the first on are whole: of this generation, and as they were written.
    fn whole(&self, frames: &[&[u8]]) -> usize {
        let mut sum = self.sum;
        frames
            .iter()
            .take_while(|frame| {
                sum = checksum(sum, &frame[..8], self.big);
                sum = checksum(sum, &frame[FRAME_HEADER..], self.big);
                self.is_mine(frame)
                    && word(frame, 16) == Some(sum[0])
                    && word(frame, 20) == Some(sum[1])
            })
            .count()
    }

    fn is_mine(&self, frame: &[u8]) -> bool {
        word(frame, 8) == Some(self.salts[0]) && word(frame, 12) == Some(self.salts[1])
    }

    /// True also where one of the salts is what is damaged: those of other generations differ in both.
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

/// The file beside the database whose name ends so.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
