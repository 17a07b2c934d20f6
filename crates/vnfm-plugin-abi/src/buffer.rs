//! Bytes that cross the boundary: [`Slice`] is lent for a call, [`Buf`] is given away.

use std::borrow::Cow;

/// Bytes that are lent for the time of the call, or for ever where a table holds them.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    /// First byte; may be null where `len` is 0.
    pub ptr: *const u8,
    /// How many.
    pub len: usize,
}

// SAFETY: a slice only says where bytes are; whoever reads them takes `unsafe` for it.
unsafe impl Send for Slice {}
// SAFETY: as above, and the bytes are never written through it.
unsafe impl Sync for Slice {}

impl Slice {
    /// Text that lives for ever, for tables.
    pub const fn from_static(text: &'static str) -> Self {
        Self {
            ptr: text.as_ptr(),
            len: text.len(),
        }
    }

    /// Lends `bytes`.
    pub const fn new(bytes: &[u8]) -> Self {
        Self {
            ptr: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// The bytes.
    ///
    /// # Safety
    ///
    /// `len` bytes from `ptr` must stay readable and unchanged for `'a`.
    pub unsafe fn as_bytes<'a>(self) -> &'a [u8] {
        if self.len == 0 || self.ptr.is_null() {
            return &[];
        }
        // SAFETY: the caller promises it.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// The bytes as text, with what is not UTF-8 replaced.
    ///
    /// # Safety
    ///
    /// As [`Slice::as_bytes`].
    pub unsafe fn as_text<'a>(self) -> Cow<'a, str> {
        // SAFETY: the caller promises it.
        String::from_utf8_lossy(unsafe { self.as_bytes() })
    }
}

/// Bytes that are given away; freed by the side that made them, whatever its allocator.
#[repr(C)]
#[derive(Debug)]
pub struct Buf {
    /// First byte; null where empty.
    pub ptr: *mut u8,
    /// How many.
    pub len: usize,
    /// What the maker had allocated; only for `free`.
    pub cap: usize,
    /// Frees it; null where there is nothing to free.
    pub free: Option<unsafe extern "C" fn(ptr: *mut u8, len: usize, cap: usize)>,
}

// SAFETY: a buffer is owned bytes; makers must let any thread free it, as the header says.
unsafe impl Send for Buf {}

impl Buf {
    /// No bytes.
    pub const EMPTY: Self = Self {
        ptr: std::ptr::null_mut(),
        len: 0,
        cap: 0,
        free: None,
    };

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the maker keeps them until `free`, which is our drop.
        unsafe {
            Slice {
                ptr: self.ptr,
                len: self.len,
            }
            .as_bytes()
        }
    }

    /// The bytes as text, with what is not UTF-8 replaced.
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
    fn bytes_come_back_as_they_went() {
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
