//! Bounded output: its head and tail, and how many bytes between them were omitted.

use std::collections::VecDeque;

/// Bytes that are kept of the beginning; the same number is kept of the end.
const MAX_PART_LEN: usize = 512 * 1024;

/// The output of one stream.
#[derive(Default)]
pub(crate) struct BoundedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: usize,
}

impl BoundedOutput {
    /// Appends a chunk of the stream.
    pub(crate) fn push(&mut self, data: &[u8]) {
        let (first, rest) = data.split_at(data.len().min(MAX_PART_LEN - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(MAX_PART_LEN);
        self.tail.drain(..surplus);
        self.omitted += surplus;
    }

    /// Whether bytes in the middle were omitted.
    pub(crate) fn is_truncated(&self) -> bool {
        self.omitted > 0
    }

    /// The output as lossy UTF-8, with a line in place of omitted bytes.
    pub(crate) fn into_text(self) -> String {
        let mut bytes = self.head;
        if self.omitted > 0 {
            bytes.extend_from_slice(format!("\n[{} bytes left out]\n", self.omitted).as_bytes());
        }
        bytes.extend(self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{BoundedOutput, MAX_PART_LEN};

    #[test]
    fn long_output_keeps_its_head_and_tail() {
        let mut output = BoundedOutput::default();
        for n in 0..40_000 {
            output
                .push(format!("line {n} of what a very talkative program has to say\n").as_bytes());
        }
        assert!(output.is_truncated());
        let text = output.into_text();
        assert!(text.starts_with("line 0 of"));
        assert!(text.contains("bytes left out]"));
        assert!(text.ends_with("line 39999 of what a very talkative program has to say\n"));
        assert!(text.len() < 2 * MAX_PART_LEN + 64);
    }

    #[test]
    fn short_output_is_complete() {
        let mut output = BoundedOutput::default();
        output.push(b"ab");
        output.push(b"c");
        assert!(!output.is_truncated());
        assert_eq!(output.into_text(), "abc");
    }
}
