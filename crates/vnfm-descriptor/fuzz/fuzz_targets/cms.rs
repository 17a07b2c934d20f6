//! libFuzzer on signatures: CMS, then what it says of a content.
#![no_main]

use vnfm_signature::Signature;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(read) = Signature::read(bytes) {
        let _ = read.verify(b"content", &[]);
    }
});
