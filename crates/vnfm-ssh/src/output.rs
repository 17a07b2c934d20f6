//! Output with a bound: its head and its tail, and how much was left out between them.

use std::collections::VecDeque;

/// Bytes kept of the beginning, and as many of the end.
const KEPT: usize = 512 * 1024;

/// A stream's output.
#[derive(Default)]
pub(crate) struct Bounded {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: usize,
}

impl Bounded {
    /// Takes more of it.
    pub(crate) fn push(&mut self, data: &[u8]) {
        let (first, rest) = data.split_at(data.len().min(KEPT - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..surplus);
        self.left_out += surplus;
    }

    /// Whether something was left out.
    pub(crate) fn is_truncated(&self) -> bool {
        self.left_out > 0
    }

    /// The text, with a line in place of what was left out.
    pub(crate) fn into_text(self) -> String {
        let mut bytes = self.head;
        if self.left_out > 0 {
            bytes.extend_from_slice(format!("\n[{} bytes left out]\n", self.left_out).as_bytes());
        }
        bytes.extend(self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounded, KEPT};

    #[test]
    fn head_and_tail_stay() {
        let mut output = Bounded::default();
        for n in 0..40_000 {
            output
                .push(format!("line {n} of what a very talkative program has to say\n").as_bytes());
        }
        assert!(output.is_truncated());
        let text = output.into_text();
        assert!(text.starts_with("line 0 of"));
        assert!(text.contains("bytes left out]"));
        assert!(text.ends_with("line 39999 of what a very talkative program has to say\n"));
        assert!(text.len() < 2 * KEPT + 64);
    }

    #[test]
    fn short_output_is_left_alone() {
        let mut output = Bounded::default();
        output.push(b"ab");
        output.push(b"c");
        assert!(!output.is_truncated());
        assert_eq!(output.into_text(), "abc");
    }
}
