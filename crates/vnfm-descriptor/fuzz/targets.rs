//! What is fuzzed, as plain functions: here with libFuzzer, in `tests/fuzz.rs` with a corpus and mutations of it.

use std::io::{Cursor, Write as _};
use vnfm_descriptor::{Limits, Package};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// YAML to the model.
pub(crate) fn vnfd(bytes: &[u8]) {
    drop(Package::from_bytes(archive_of(&[("vnfd.yaml", bytes)]), &Limits::default()));
}

/// The manifest, beside a descriptor that is right.
pub(crate) fn manifest(bytes: &[u8]) {
    let files = [
        ("vnfd.yaml", &b"tosca_definitions_version: tosca_simple_yaml_1_3\n"[..]),
        ("vnfd.mf", bytes),
    ];
    drop(Package::from_bytes(archive_of(&files), &Limits::default()));
}

/// The archive itself.
pub(crate) fn archive(bytes: &[u8]) {
    drop(Package::from_bytes(bytes.to_vec(), &Limits::default()));
}

fn archive_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
