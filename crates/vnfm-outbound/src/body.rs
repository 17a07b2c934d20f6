//! Limits for response bodies: their size, and the number of values in their JSON, which determines a parser's memory.

use crate::client::{Policy, error_chain};
use bytes::{Bytes, BytesMut};
use reqwest::Response;
use std::fmt;

/// Why a response could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// It has more bytes than this limit.
    TooLarge(u64),
    /// Its JSON has more values than this limit.
    TooManyValues(u64),
    /// It did not arrive within the timeout.
    TooSlow,
    /// The connection broke or timed out.
    Lost(reqwest::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(most) => write!(f, "the response is larger than {most} bytes"),
            Self::TooManyValues(most) => write!(f, "the response has more than {most} values"),
            Self::TooSlow => f.write_str("the response timed out"),
            Self::Lost(error) => write!(f, "the response is incomplete: {}", error_chain(error)),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads a complete response body.
///
/// # Errors
///
/// If it is larger than the policy allows, or the connection breaks.
pub async fn read(mut response: Response, policy: &Policy) -> Result<Bytes, ReadError> {
    let mut meter = Meter::new(policy);
    if response
        .content_length()
        .is_some_and(|length| length > policy.body)
    {
        return Err(ReadError::TooLarge(policy.body));
    }
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(ReadError::Lost)? {
        meter.take(&piece)?;
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// A large response, read in pieces up to a maximum size.
#[derive(Debug)]
pub struct Pieces {
    response: Response,
    most: u64,
    got: u64,
}

impl Pieces {
    /// Limits the response to `most` bytes.
    pub fn new(response: Response, most: u64) -> Self {
        Self {
            response,
            most,
            got: 0,
        }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the response is larger than allowed, or the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        let piece = self.response.chunk().await.map_err(ReadError::Lost)?;
        self.got += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        if self.got > self.most {
            return Err(ReadError::TooLarge(self.most));
        }
        Ok(piece)
    }
}

/// Counts bytes and JSON values as they arrive: each comma, bracket or brace outside of a string starts a value.
#[derive(Debug)]
pub(crate) struct Meter {
    policy: Policy,
    bytes: u64,
    values: u64,
    in_string: bool,
    escaped: bool,
}

impl Meter {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            policy: policy.clone(),
            bytes: 0,
            values: 0,
            in_string: false,
            escaped: false,
        }
    }

    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<(), ReadError> {
        self.bytes += piece.len() as u64;
        if self.bytes > self.policy.body {
            return Err(ReadError::TooLarge(self.policy.body));
        }
        for byte in piece {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b',' | b'[' | b'{' if !self.in_string => self.values += 1,
                _ => {}
            }
        }
        if self.values > self.policy.values {
            return Err(ReadError::TooManyValues(self.policy.values));
        }
        Ok(())
    }

    /// Resets the counters for the next object of a stream.
    pub(crate) fn begin_again(&mut self) {
        *self = Self::new(&self.policy);
    }
}

#[cfg(test)]
mod tests {
    use super::{Meter, ReadError};
    use crate::Policy;

    #[test]
    fn values_are_counted_across_chunks_but_not_inside_strings() {
        let policy = Policy {
            body: 1000,
            values: 3,
            ..Policy::VIM
        };
        let mut meter = Meter::new(&policy);
        meter.take(br#"{"a,b[c\"d{":"#).unwrap();
        meter.take(br"[1,").unwrap();
        assert!(matches!(
            meter.take(b"2,3]}"),
            Err(ReadError::TooManyValues(3))
        ));
        let mut text = Meter::new(&policy);
        text.take(br#"{"a": ",,,,,\"#).unwrap();
        text.take(br#"",,,,,,"}"#).unwrap();
    }
}
