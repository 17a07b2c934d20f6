//! What goes over the socket between the engine and the process of a hook.
//!
//! ```text
//! length: u32 | kind: u8 | id: u32 | length of name: u16 | name | body        numbers in big-endian order
//!
//! engine                                    process
//!  LOAD    body: limits, symbol -----------> shuts itself in, opens the library
//!          <-------------------------------- DECLARED  body: what it says of itself     or REFUSED
//!  CREATE  name: plugin, body: config -----> makes the driver
//!          <-------------------------------- READY                                      or REFUSED
//!  CALL    name: hook, body: request ------>
//!          <-------------------------------- BEGUN
//!          <-------------------------------- SERVICE  id, name: service, body: request  many at once
//!  ANSWER or FAILED  id, body ------------->
//!          <-------------------------------- DROPPED  id: nobody waits for it any more
//!          <-------------------------------- DONE     id: status, body: effects or error
//! ```
//!
//! Bodies are JSON as it crosses the C boundary, byte by byte: what is wrong with it is said at one place for
//! both runners. The library itself comes as an open file, the program's standard output.

use std::io::{self, Read, Write};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Limits and symbol.
pub(crate) const LOAD: u8 = 1;
/// The plugin's configuration.
pub(crate) const CREATE: u8 = 2;
/// A hook's request.
pub(crate) const CALL: u8 = 3;
/// What a service answers.
pub(crate) const ANSWER: u8 = 4;
/// Why a service does not answer.
pub(crate) const FAILED: u8 = 5;
/// What the plugin says of itself.
pub(crate) const DECLARED: u8 = 16;
/// The name of an error code and why; or [`CREATE_REFUSED`] with the status of `create`.
pub(crate) const REFUSED: u8 = 17;
/// The driver is made.
pub(crate) const READY: u8 = 18;
/// The request of the hook has arrived.
pub(crate) const BEGUN: u8 = 19;
/// The hook asks for a service.
pub(crate) const SERVICE: u8 = 20;
/// The hook waits no longer for a service.
pub(crate) const DROPPED: u8 = 21;
/// A line for the log; the id is its level.
pub(crate) const LOG: u8 = 22;
/// How the hook ended; the id is the status of its last `poll`.
pub(crate) const DONE: u8 = 23;

/// Name of a [`REFUSED`] that `create` answered.
pub(crate) const CREATE_REFUSED: &str = "create";
/// Id of a [`DONE`] whose driver cannot be called at all.
pub(crate) const NO_CALL: u32 = u32::MAX;

/// The longest message that a process of a hook reads; an artifact of a package is the longest that is meant.
const LONGEST: u32 = 128 << 20;
/// The longest message that is read from such a process: whatever it says, it fills no memory of the server.
const LONGEST_FROM_HOOK: u32 = 32 << 20;
const HEAD: usize = 1 + 4 + 2;

/// One message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(kind: u8, id: u32, name: &str, body: &[u8]) -> Self {
        Self {
            kind,
            id,
            name: name.to_owned(),
            body: body.to_vec(),
        }
    }

    /// As it goes over the socket. A name that is too long is cut, which makes it one that nobody knows.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let name = &self.name.as_bytes()[..self.name.len().min(usize::from(u16::MAX))];
        let length = HEAD + name.len() + self.body.len();
        let mut bytes = Vec::with_capacity(4 + length);
        bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        bytes.push(self.kind);
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend(name);
        bytes.extend(&self.body);
        bytes
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let [kind, a, b, c, d, high, low] = *head;
        let (name, body) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
        let name = String::from_utf8_lossy(name).into_owned();
        Some(Self {
            kind,
            id: u32::from_be_bytes([a, b, c, d]),
            name,
            body: body.to_vec(),
        })
    }
}

/// Reads a message, in the process of a hook or before anything of the vendor's runs.
///
/// # Errors
///
/// `UnexpectedEof` at the end, `InvalidData` where it is none.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Frame> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = length_of(length, LONGEST)?;
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes)?;
    whole(&bytes, length)
}

/// The same from the process of a hook, where nobody may be held up.
///
/// # Errors
///
/// As [`read`].
pub(crate) async fn read_async(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let length = length_of(length, LONGEST_FROM_HOOK)?;
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes).await?;
    whole(&bytes, length)
}

/// Writes a message.
///
/// # Errors
///
/// Where the other side is gone.
pub(crate) fn write(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    to.write_all(&frame.bytes())
}

fn length_of(bytes: [u8; 4], longest: u32) -> io::Result<u32> {
    let length = u32::from_be_bytes(bytes);
    if length <= longest {
        return Ok(length);
    }
    let what = format!("a message of {length} bytes, more than the {longest} that are read");
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

fn whole(bytes: &[u8], length: u32) -> io::Result<Frame> {
    if u32::try_from(bytes.len()) != Ok(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let none = || io::Error::new(io::ErrorKind::InvalidData, "a message without its head");
    Frame::of(bytes).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::{DONE, Frame, LONGEST_FROM_HOOK, read, read_async};
    use std::io::ErrorKind;

    #[tokio::test]
    async fn a_message_is_read_as_it_was_written_by_both_readers() {
        let sent = [Frame::new(DONE, 7, "a name", b"a body"), Frame::default()];
        let bytes: Vec<u8> = sent.iter().flat_map(Frame::bytes).collect();
        let (mut one, mut two) = (&bytes[..], &bytes[..]);
        for frame in sent {
            assert_eq!(read(&mut one).unwrap(), frame);
            assert_eq!(read_async(&mut two).await.unwrap(), frame);
        }
        assert_eq!(read(&mut one).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_hook_cannot_say_more_than_the_server_reads_at_once() {
        for (length, kind) in [
            (LONGEST_FROM_HOOK, ErrorKind::UnexpectedEof),
            (LONGEST_FROM_HOOK + 1, ErrorKind::InvalidData),
        ] {
            let said = length.to_be_bytes();
            assert_eq!(
                read_async(&mut &said[..]).await.unwrap_err().kind(),
                kind,
                "{length}"
            );
        }
    }

    #[test]
    fn what_is_no_message_is_no_message() {
        let cut = &Frame::new(DONE, 7, "a name", b"a body").bytes()[..12];
        assert_eq!(
            read(&mut &*cut).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
        let huge = [0xff; 16];
        assert_eq!(
            read(&mut &huge[..]).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
        let name_past_the_end = [0, 0, 0, 7, DONE, 0, 0, 0, 0, 0, 9];
        assert_eq!(
            read(&mut &name_past_the_end[..]).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
    }
}
