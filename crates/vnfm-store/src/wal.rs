//! The write-ahead log, looked at before SQLite does: SQLite drops, without a word, everything behind the first frame
//! that is not whole. After a crash that is right for what nobody was told of, and for nothing else.
//!
//! ```text
//! header ─ frame ─ frame(commit) ─ frame ─ frame(commit) ─ … ─ frame(commit) │ what was being written
//!                                                              acknowledged ─┘
//! ```
//! Two things tell how far acknowledged transactions reach. Beside the database lies a note of the last one, written
//! after each commit; it costs no fsync, so the crash of a machine may leave an older one, which is still true. And
//! a transaction begins after the fsync of the one before: where a frame is damaged, and two transactions end behind
//! it, at least the first of them was acknowledged. A log that lost any of that is refused, with what to do.

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

/// Which generation of the log, and how many of its frames are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    salts: [u32; 2],
    frames: u32,
}

/// The note beside the database, and where it is learned from.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    note: File,
    index: Arc<File>,
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
        Ok((Self { note, index: index.clone(), last: None }, index))
    }

    /// Notes what the log's index shows as committed. What cannot be noted is told and goes on: a note that is
    /// older is true.
    pub(crate) fn note(&mut self) {
        let Ok(mark) = committed(&self.index) else { return };
        if self.last == Some(mark) {
            return;
        }
        match self.note.write_all_at(&mark.bytes(), 0) {
            Ok(()) => self.last = Some(mark),
            Err(error) => tracing::warn!(%error, "what is acknowledged was not noted"),
        }
    }
}

impl Mark {
    fn bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        for (place, word) in
            bytes.chunks_exact_mut(4).zip([self.salts[0], self.salts[1], self.frames])
        {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        Some(Self { salts: [word(bytes, 0)?, word(bytes, 4)?], frames: word(bytes, 8)? })
    }
}

/// What the first copy of the index's header says: `mxFrame` and the salts, as SQLite wrote them.
fn committed(index: &File) -> io::Result<Mark> {
    let mut header = [0; 48];
    index.read_exact_at(&mut header, 0)?;
    // The count is in the machine's order, the salts are copied as they lie in the log.
    let frames = word(&header, 16).map(u32::to_ne_bytes).map_or(0, u32::from_be_bytes);
    let salt = |at: usize| word(&header, at).unwrap_or_default();
    Ok(Mark { salts: [salt(32), salt(36)], frames })
}

/// Looks at the log of the database at `path`, if there is one.
///
/// # Errors
///
/// `Broken` where acknowledged transactions are damaged or cut off; nothing was changed.
pub(crate) fn check(path: &Path) -> Result<(), StoreError> {
    let log = beside(path, "-wal");
    let bytes = match fs::read(&log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let why = format!("cannot read `{}`: {error}", log.display());
            return Err(StoreError::Unavailable(why));
        }
        Ok(bytes) => bytes,
    };
    let noted = fs::read(beside(path, "-acked")).ok().and_then(|bytes| Mark::of(&bytes));
    let Some(found) = damage(&bytes, noted) else { return Ok(()) };
    Err(StoreError::Broken(format!(
        "its write-ahead log `{}` is damaged: {found}; hint: nothing was changed: mend the disk and bring both files \
         back as they were, or restore a backup; to give up the transactions from there on instead, keep a copy of \
         the folder and run `truncate -s {} {}` and `rm {}`",
        log.display(),
        found.offset,
        log.display(),
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
        write!(f, "frame {} at byte {} is not whole", self.frame, self.offset)?;
        match self.acknowledged {
            Some(frames) => write!(f, ", and {frames} frames were acknowledged"),
            None => write!(f, ", and acknowledged transactions lie behind it"),
        }
    }
}

fn damage(bytes: &[u8], noted: Option<Mark>) -> Option<Damage> {
    let has_frames = bytes.len() >= HEADER + FRAME_HEADER;
    let Some(header) = Header::of(bytes) else {
        // The header is durable before the first frame is written.
        return has_frames.then_some(Damage { offset: 0, frame: 0, acknowledged: None });
    };
    let frames: Vec<_> = bytes[HEADER..].chunks_exact(FRAME_HEADER + header.page).collect();
    let whole = header.whole(&frames);
    let behind = frames[whole..].iter().filter(|frame| header.ends_a_transaction(frame)).count();
    let acknowledged = noted.filter(|mark| mark.salts == header.salts).map(|mark| mark.frames);
    let lost = acknowledged.is_some_and(|frames| (frames as usize) > whole);
    let offset = HEADER + whole * (FRAME_HEADER + header.page);
    let found = Damage { offset, frame: whole + 1, acknowledged: acknowledged.filter(|_| lost) };
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
        let mine =
            [8, 12].into_iter().zip(self.salts).any(|(at, salt)| word(frame, at) == Some(salt));
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
