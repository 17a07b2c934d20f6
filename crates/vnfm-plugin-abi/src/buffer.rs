//! Bytes that cross the boundary: a [`Slice`] is borrowed for a call, a [`Buf`] changes its owner.

use std::borrow::Cow;

/// Bytes that are borrowed for the duration of a call; those in a table are static.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    /// First byte; may be null if `len` is 0.
    pub ptr: *const u8,
    /// Number of bytes at `ptr`.
    pub len: usize,
}

// SAFETY: a slice is only an address and a length; reading it is `unsafe`.
unsafe impl Send for Slice {}
// SAFETY: as above, and the bytes are never written through it.
unsafe impl Sync for Slice {}

impl Slice {
    /// A static text, for tables.
    pub const fn from_static(text: &'static str) -> Self {
        Self {
            ptr: text.as_ptr(),
            len: text.len(),
        }
    }

    /// Borrows `bytes`; the slice carries no lifetime.
    pub const fn new(bytes: &[u8]) -> Self {
        Self {
            ptr: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// The bytes; empty if `ptr` is null.
    ///
    /// # Safety
    ///
    /// `len` bytes from `ptr` must stay readable and unchanged for `'a`.
    pub unsafe fn as_bytes<'a>(self) -> &'a [u8] {
        if self.len == 0 || self.ptr.is_null() {
            return &[];
        }
        // SAFETY: guaranteed by the caller.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// The bytes as text; invalid UTF-8 is replaced.
    ///
    /// # Safety
    ///
    /// Those of [`Slice::as_bytes`]: the bytes stay readable for `'a`.
    pub unsafe fn as_text<'a>(self) -> Cow<'a, str> {
        // SAFETY: guaranteed by the caller.
        String::from_utf8_lossy(unsafe { self.as_bytes() })
    }
}

/// Owned bytes; freed by the side that allocated them, so that allocators may differ.
#[repr(C)]
#[derive(Debug)]
pub struct Buf {
    /// First byte; null if empty.
    pub ptr: *mut u8,
    /// Number of bytes at `ptr`.
    pub len: usize,
    /// Allocated size; only for `free`.
    pub cap: usize,
    /// Frees the bytes; null if there is nothing to free.
    pub free: Option<unsafe extern "C" fn(ptr: *mut u8, len: usize, cap: usize)>,
}

// SAFETY: a buffer owns its bytes, and the header requires that any thread may free it.
unsafe impl Send for Buf {}

impl Buf {
    /// An empty buffer, which needs no `free`.
    pub const EMPTY: Self = Self {
        ptr: std::ptr::null_mut(),
        len: 0,
        cap: 0,
        free: None,
    };

    /// The bytes, without copying them.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the bytes live until `free`, which runs in `drop`.
        unsafe {
            Slice {
                ptr: self.ptr,
                len: self.len,
            }
            .as_bytes()
        }
    }

    /// The bytes as text; invalid UTF-8 is replaced.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }
}

impl From<Vec<u8>> for Buf {
    fn from(bytes: Vec<u8>) -> Self {
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        Self {
            ptr: bytes.as_mut_ptr(),
            len: bytes.len(),
            cap: bytes.capacity(),
            free: Some(free_vec),
        }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Some(free) = self.free.take() {
            // SAFETY: `free` came with these three values and runs once.
            unsafe { free(self.ptr, self.len, self.cap) }
        }
    }
}

unsafe extern "C" fn free_vec(ptr: *mut u8, len: usize, cap: usize) {
    // SAFETY: only `From<Vec<u8>>` hands this function out, with the parts of a vector that it forgot.
    drop(unsafe { Vec::from_raw_parts(ptr, len, cap) });
}

#[cfg(test)]
mod tests {
    use super::{Buf, Slice};

    #[test]
    fn bytes_survive_a_round_trip() {
        let buf = Buf::from(b"abc".to_vec());
        assert_eq!(
            (buf.as_bytes(), buf.to_text().as_str()),
            (&b"abc"[..], "abc")
        );
        assert!(Buf::EMPTY.as_bytes().is_empty());
        let null = Slice {
            ptr: std::ptr::null(),
            len: 7,
        };
        // SAFETY: null is read as empty.
        assert!(unsafe { null.as_bytes() }.is_empty());
    }
}
