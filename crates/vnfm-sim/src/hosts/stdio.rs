//! Input and output of a program.

use tokio::sync::oneshot;

/// Exit code and output of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Output {
    pub(crate) fn ok(out: impl Into<Vec<u8>>) -> Self {
        Self {
            code: 0,
            out: out.into(),
            err: String::new(),
        }
    }

    pub(crate) fn fail(code: i32, err: impl Into<String>) -> Self {
        Self {
            code,
            out: Vec::new(),
            err: err.into(),
        }
    }

    /// `bytes` bytes of control characters and invalid UTF-8 in 1 MiB lines, then one readable line.
    pub(crate) fn flood(bytes: usize, code: i32) -> Self {
        let garbage = b"\x1b[31m\xff\xfe\x00garbage\x07".iter().copied().cycle();
        let mut out: Vec<u8> = garbage.take(bytes).collect();
        for line in out.chunks_mut(1 << 20) {
            line[0] = b'\n';
        }
        out.extend_from_slice(b"\nand here the flood ended\n");
        Self {
            code,
            out,
            err: String::new(),
        }
    }

    pub(super) fn append(&mut self, next: Self) {
        self.code = next.code;
        self.out.extend(next.out);
        self.err.push_str(&next.err);
    }
}

/// Concatenates lines, each with its own end.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().collect::<Vec<_>>().concat()
}

/// Standard input; the first program that reads takes all of it.
pub(crate) enum Input {
    /// Input that is known in advance.
    Ready(Vec<u8>),
    /// Still arriving over a connection.
    Arriving(oneshot::Receiver<Vec<u8>>),
}

impl Input {
    pub(crate) fn empty() -> Self {
        Self::Ready(Vec::new())
    }

    /// Returns all input; empty the second time.
    pub(crate) async fn take(&mut self) -> Vec<u8> {
        match std::mem::replace(self, Self::empty()) {
            Self::Ready(bytes) => bytes,
            Self::Arriving(bytes) => bytes.await.unwrap_or_default(),
        }
    }
}
