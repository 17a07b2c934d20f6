//! The messages between the engine and a hook process.
//!
//! ```text
//! length: u32 | kind: u8 | id: u32 | length of name: u16 | name | body        numbers are big-endian
//!
//! engine                                    process
//!  LOAD    body: limits, symbol -----------> confines itself, opens the library
//!          <-------------------------------- DECLARED  body: description of the library or REFUSED
//!  CREATE  name: plugin, body: config -----> creates the driver
//!          <-------------------------------- READY                                      or REFUSED
//!  CALL    name: hook, body: request ------>
//!          <-------------------------------- BEGUN
//!          <-------------------------------- SERVICE  id, name: service, body: request  many at once
//!  ANSWER or FAILED  id, body ------------->
//!          <-------------------------------- DROPPED  id: the hook no longer waits for it
//!          <-------------------------------- DONE     id: status, body: effects or error
//! ```
//!
//! Bodies are the JSON of the plugin ABI, unchanged, so that both runners share the code that checks it. The library
//! itself is passed as an open file: the process's standard output.

use std::io::{self, Read, Write};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Everything the process needs to confine itself and open the library.
pub(crate) const LOAD: u8 = 1;
/// To the process: the configuration to create the driver with.
pub(crate) const CREATE: u8 = 2;
/// To the process: the request of a hook to run.
pub(crate) const CALL: u8 = 3;
/// The response of a service.
pub(crate) const ANSWER: u8 = 4;
/// The error of a service.
pub(crate) const FAILED: u8 = 5;
/// The library's description of itself.
pub(crate) const DECLARED: u8 = 16;
/// An error: its code and texts; or [`CREATE_REFUSED`] with the status of `create`.
pub(crate) const REFUSED: u8 = 17;
/// From the process: the driver was created.
pub(crate) const READY: u8 = 18;
/// The hook's request has arrived.
pub(crate) const BEGUN: u8 = 19;
/// The hook calls a service.
pub(crate) const SERVICE: u8 = 20;
/// The hook no longer waits for a service.
pub(crate) const DROPPED: u8 = 21;
/// A log line; the id is its level.
pub(crate) const LOG: u8 = 22;
/// The hook's result; the id is the status of its last `poll`.
pub(crate) const DONE: u8 = 23;

/// Name of a [`REFUSED`] that came from `create`.
pub(crate) const CREATE_REFUSED: &str = "create";
/// Id of a [`DONE`] if the driver cannot be called at all.
pub(crate) const NO_CALL: u32 = u32::MAX;

/// Maximum length of a message to a hook process; artifacts are the longest.
const MAX_LEN: u32 = 128 << 20;
/// Maximum length of a message from a hook process, so that no hook can exhaust the server's memory.
const MAX_LEN_FROM_HOOK: u32 = 32 << 20;
const HEADER_LEN: usize = 1 + 4 + 2;

/// One message between the server and a hook process.
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

    /// Serializes the message. A name that is too long is truncated, and then no longer matches any known name.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let name = &self.name.as_bytes()[..self.name.len().min(usize::from(u16::MAX))];
        let length = HEADER_LEN + name.len() + self.body.len();
        let mut bytes = Vec::with_capacity(4 + length);
        bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        bytes.push(self.kind);
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend(name);
        bytes.extend(&self.body);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEADER_LEN>()?;
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

/// Reads a message, in the hook process or before any code of the plugin runs.
///
/// # Errors
///
/// `UnexpectedEof` at the end, `InvalidData` if it is not a message.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Frame> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = length_of(length, MAX_LEN)?;
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes)?;
    parse(&bytes, length)
}

/// Like [`read`], for messages from a hook process: without blocking, and with the lower limit.
///
/// # Errors
///
/// Those of [`read`], with an async reader.
pub(crate) async fn read_async(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let length = length_of(length, MAX_LEN_FROM_HOOK)?;
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes).await?;
    parse(&bytes, length)
}

/// Writes one message, its length first.
///
/// # Errors
///
/// If the other side has closed the socket.
pub(crate) fn write(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    to.write_all(&frame.bytes())
}

fn length_of(bytes: [u8; 4], max: u32) -> io::Result<u32> {
    let length = u32::from_be_bytes(bytes);
    if length <= max {
        return Ok(length);
    }
    let detail = format!("a message of {length} bytes; the limit is {max}");
    Err(io::Error::new(io::ErrorKind::InvalidData, detail))
}

fn parse(bytes: &[u8], length: u32) -> io::Result<Frame> {
    if u32::try_from(bytes.len()) != Ok(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let none = || io::Error::new(io::ErrorKind::InvalidData, "a message without its header");
    Frame::from_bytes(bytes).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::{DONE, Frame, MAX_LEN_FROM_HOOK, read, read_async};
    use std::io::ErrorKind;

    #[tokio::test]
    async fn both_readers_parse_written_messages() {
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
    async fn the_length_of_messages_from_hooks_is_limited() {
        for (length, kind) in [
            (MAX_LEN_FROM_HOOK, ErrorKind::UnexpectedEof),
            (MAX_LEN_FROM_HOOK + 1, ErrorKind::InvalidData),
        ] {
            let header = length.to_be_bytes();
            assert_eq!(
                read_async(&mut &header[..]).await.unwrap_err().kind(),
                kind,
                "{length}"
            );
        }
    }

    #[test]
    fn malformed_messages_are_errors() {
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
