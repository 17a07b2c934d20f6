//! The fuzz targets as plain functions, for libFuzzer and for `tests/fuzz.rs`.

use std::io::{Cursor, Write as _};
use vnfm_descriptor::{Limits, Package};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// The YAML of a descriptor.
pub(crate) fn vnfd(bytes: &[u8]) {
    drop(Package::from_bytes(
        archive_of(&[("vnfd.yaml", bytes)]),
        &Limits::default(),
    ));
}

/// A manifest, with a valid descriptor.
pub(crate) fn manifest(bytes: &[u8]) {
    let files = [
        (
            "vnfd.yaml",
            &b"tosca_definitions_version: tosca_simple_yaml_1_3\n"[..],
        ),
        ("vnfd.mf", bytes),
    ];
    drop(Package::from_bytes(archive_of(&files), &Limits::default()));
}

/// Opens the bytes as a package.
pub(crate) fn archive(bytes: &[u8]) {
    drop(Package::from_bytes(bytes.to_vec(), &Limits::default()));
}

/// A Helm chart in a package.
pub(crate) fn chart(bytes: &[u8]) {
    let files = [("vnfd.yaml", VNFD.as_bytes()), ("web.tgz", bytes)];
    let package = Package::from_bytes(archive_of(&files), &Limits::default()).unwrap();
    drop(package.chart("web.tgz"));
}

/// A valid descriptor for packages whose other file is fuzzed.
const VNFD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
node_types: {N: {derived_from: tosca.nodes.nfv.VNF}}
topology_template:
  substitution_mappings: {node_type: N, properties: {flavour_id: f}}
  node_templates:
    VNF: {type: N, properties: {descriptor_id: d, descriptor_version: '1', provider: P, product_name: N, software_version: '1', vnfm_info: [any], flavour_description: F}}
";

fn archive_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}
