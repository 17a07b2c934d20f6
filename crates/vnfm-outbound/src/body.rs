//! Answers that are read whole end where a policy ends them: by their size, and by how many values their JSON has, which
//! is what a parser makes memory of.

use crate::client::{Policy, words};
use bytes::{Bytes, BytesMut};
use reqwest::Response;
use std::fmt;

/// Why an answer could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// It has more bytes than are read.
    TooLarge(u64),
    /// Its JSON has more values than are read.
    TooManyValues(u64),
    /// It takes longer than is waited.
    TooSlow,
    /// It did not arrive whole.
    Lost(reqwest::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(most) => write!(f, "the answer is larger than {most} bytes"),
            Self::TooManyValues(most) => write!(f, "the answer has more than {most} values"),
            Self::TooSlow => f.write_str("the answer takes longer than is waited"),
            Self::Lost(error) => write!(f, "the answer did not arrive whole: {}", words(error)),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads an answer to its end.
///
/// # Errors
///
/// Where it is larger than the policy allows, or is cut off.
pub async fn read(mut response: Response, policy: &Policy) -> Result<Bytes, ReadError> {
    let mut meter = Meter::new(policy);
    if response
        .content_length()
        .is_some_and(|length| length > policy.body)
    {
        return Err(ReadError::TooLarge(policy.body));
    }
    let mut whole = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(ReadError::Lost)? {
        meter.take(&piece)?;
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// A large answer that its reader takes in pieces, up to a number of bytes.
#[derive(Debug)]
pub struct Pieces {
    response: Response,
    most: u64,
    got: u64,
}

impl Pieces {
    /// The pieces of an answer of at most `most` bytes.
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
    /// Where more than the allowed number of bytes came, or the answer is cut off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        let piece = self.response.chunk().await.map_err(ReadError::Lost)?;
        self.got += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        if self.got > self.most {
            return Err(ReadError::TooLarge(self.most));
        }
        Ok(piece)
    }
}

/// Measures an answer while it comes. Values are what a comma, a bracket or a brace outside of a string begins.
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

    /// Another object of a stream begins.
    pub(crate) fn begin_again(&mut self) {
        *self = Self::new(&self.policy);
    }
}

#[cfg(test)]
mod tests {
    use super::{Meter, ReadError};
    use crate::Policy;

    #[test]
    fn values_are_counted_across_pieces_and_not_inside_strings() {
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
