//! Hostile archives are refused before their content is used.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{Cursor, Write};
use vnfm_descriptor::{Limits, Package, codes};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const VNFD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3\n";

fn archive(fill: impl FnOnce(&mut ZipWriter<Cursor<Vec<u8>>>)) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    fill(&mut zip);
    zip.finish().unwrap().into_inner()
}

fn options() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)
}

fn with(entries: &[(&str, &[u8])]) -> Vec<u8> {
    archive(|zip| {
        for (name, bytes) in entries {
            zip.start_file(*name, options()).unwrap();
            zip.write_all(bytes).unwrap();
        }
    })
}

/// The codes of the errors that refuse the bytes.
fn refused(bytes: Vec<u8>, limits: &Limits) -> Vec<&'static str> {
    Package::from_bytes(bytes, limits)
        .unwrap_err()
        .errors()
        .map(|finding| finding.code)
        .collect()
}

#[track_caller]
fn refused_for(bytes: Vec<u8>, code: &'static str) {
    let found = refused(bytes, &Limits::default());
    assert!(found.contains(&code), "{found:?} lacks {code}");
}

/// Replaces a name in the archive; both names have the same length.
fn renamed(mut bytes: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut at = 0;
    let mut times = 0;
    while let Some(found) = bytes[at..]
        .windows(from.len())
        .position(|window| window == from.as_bytes())
    {
        bytes[at + found..at + found + from.len()].copy_from_slice(to.as_bytes());
        at += found + from.len();
        times += 1;
    }
    assert_eq!(times, 2, "the name is in the local and the central header");
    bytes
}

#[test]
fn names_that_leave_the_package_are_refused() {
    for name in [
        "../../etc/passwd",
        "/etc/passwd",
        "a/../../b",
        "C:/windows",
        "..\\..\\b",
        "C:\\x",
        "a\u{7}b",
    ] {
        let placeholder = "x".repeat(name.len());
        let bytes = renamed(
            with(&[("vnfd.yaml", VNFD.as_bytes()), (&placeholder, b"harm")]),
            &placeholder,
            name,
        );
        refused_for(bytes, codes::ZIP_PATH);
    }
    let long = "a".repeat(600);
    refused_for(with(&[(&long, b"")]), codes::ZIP_PATH);
}

#[test]
fn symbolic_links_and_special_files_are_refused() {
    let link = archive(|zip| {
        zip.add_symlink("vnfd.yaml", "/etc/passwd", options())
            .unwrap();
    });
    refused_for(link, codes::ZIP_SYMLINK);
    let mut device = with(&[("vnfd.yaml", VNFD.as_bytes())]);
    // The upper half of the external attributes in the central header is the Unix mode.
    let central = device
        .windows(4)
        .position(|window| window == b"PK\x01\x02")
        .unwrap();
    device[central + 5] = 3;
    device[central + 40..central + 42].copy_from_slice(&0o020_644_u16.to_le_bytes());
    refused_for(device, codes::ZIP_SYMLINK);
}

#[test]
fn names_that_collide_are_refused() {
    let twice = renamed(
        with(&[("vnfd.yaml", VNFD.as_bytes()), ("vnfx.yaml", b"other")]),
        "vnfx.yaml",
        "vnfd.yaml",
    );
    refused_for(twice, codes::ZIP_DUPLICATE);
    refused_for(
        with(&[("vnfd.yaml", VNFD.as_bytes()), ("VNFD.yaml", b"other")]),
        codes::ZIP_DUPLICATE,
    );
    refused_for(
        with(&[("a/b", b""), ("a/./b", b"other")]),
        codes::ZIP_DUPLICATE,
    );
    refused_for(
        with(&[("a", b""), ("a/b/c", b"other")]),
        codes::ZIP_DUPLICATE,
    );
}

#[test]
fn encrypted_entries_are_refused() {
    let mut bytes = with(&[("vnfd.yaml", VNFD.as_bytes())]);
    for (signature, flags) in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)] {
        let at = bytes
            .windows(4)
            .position(|window| window == signature)
            .unwrap();
        bytes[at + flags] |= 1;
    }
    refused_for(bytes, codes::ZIP_ENCRYPTED);
}

#[test]
fn bombs_are_refused_by_their_actual_size() {
    let zeros = vec![0_u8; 32 << 20];
    let dense = with(&[("vnfd.yaml", VNFD.as_bytes()), ("zeros", &zeros)]);
    assert!(dense.len() < 100_000);
    refused_for(dense.clone(), codes::ZIP_BOMB);
    let mut limits = Limits::default();
    (limits.ratio, limits.total_bytes) = (u64::MAX, 1 << 20);
    assert_eq!(refused(dense, &limits), [codes::ZIP_BOMB]);
    let mut limits = Limits::default();
    limits.entries = 2;
    assert_eq!(
        refused(with(&[("a", b""), ("b", b""), ("c", b"")]), &limits),
        [codes::ZIP_BOMB]
    );
}

#[test]
fn damaged_archives_are_refused() {
    refused_for(b"this is not an archive".to_vec(), codes::ZIP);
    refused_for(Vec::new(), codes::ZIP);
    let complete = with(&[
        ("vnfd.yaml", VNFD.as_bytes()),
        ("noise", &(0..=255).collect::<Vec<u8>>()),
    ]);
    refused_for(complete[..complete.len() / 2].to_vec(), codes::ZIP);
    let stored = archive(|zip| {
        zip.start_file(
            "vnfd.yaml",
            SimpleFileOptions::default().compression_method(CompressionMethod::Stored),
        )
        .unwrap();
        zip.write_all(VNFD.as_bytes()).unwrap();
    });
    let mut flipped = stored;
    let at = flipped
        .windows(5)
        .position(|window| window == b"tosca")
        .unwrap();
    flipped[at] = b'T';
    refused_for(flipped, codes::ZIP);
    let missing = Package::open("no/such/package.csar".as_ref(), &Limits::default()).unwrap_err();
    assert!(
        missing.to_string().contains("no/such/package.csar"),
        "{missing}"
    );
}

#[test]
fn changed_bytes_never_cause_a_panic() {
    let original = with(&[("vnfd.yaml", VNFD.as_bytes()), ("a/b", b"c")]);
    for at in 0..original.len() {
        for bit in [0x01, 0x80, 0xff] {
            let mut bytes = original.clone();
            bytes[at] ^= bit;
            // Damage may be harmless, but this VNFD is invalid in any case.
            assert!(Package::from_bytes(bytes, &Limits::default()).is_err());
        }
    }
}

#[cfg(unix)]
#[test]
fn a_folder_with_a_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("vnfd.yaml"), VNFD).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("secret")).unwrap();
    let findings = Package::open(folder.path(), &Limits::default()).unwrap_err();
    assert_eq!(findings.as_slice()[0].code, codes::ZIP_SYMLINK);
}

#[test]
fn yaml_bombs_in_a_package_are_refused() {
    let mut bomb = format!("{VNFD}dsl_definitions:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        let line = format!("  a{level}: &a{level} [{below}]\n");
        bomb.push_str(&line);
    }
    refused_for(with(&[("vnfd.yaml", bomb.as_bytes())]), codes::YAML_BOMB);
    let deep = format!("{VNFD}dsl_definitions: {}", "[".repeat(200));
    refused_for(with(&[("vnfd.yaml", deep.as_bytes())]), codes::YAML_BOMB);
}

#[test]
fn wrong_sizes_in_headers_are_refused() {
    let bytes = with(&[("vnfd.yaml", VNFD.as_bytes())]);
    for (signature, size) in [(b"PK\x01\x02", 24), (b"PK\x01\x02", 20)] {
        for stated in [0_u32, 3, 1 << 30] {
            let mut bytes = bytes.clone();
            let at = bytes
                .windows(4)
                .position(|window| window == signature)
                .unwrap();
            bytes[at + size..at + size + 4].copy_from_slice(&stated.to_le_bytes());
            let found = refused(bytes, &Limits::default());
            let named = [codes::ZIP, codes::ZIP_BOMB];
            assert!(
                found.iter().any(|code| named.contains(code)),
                "{stated} at {size}: {found:?}"
            );
        }
    }
}

#[test]
fn data_behind_the_end_is_refused() {
    let mut bytes = with(&[("vnfd.yaml", VNFD.as_bytes())]);
    bytes.extend_from_slice(b"MZ, a program in disguise");
    refused_for(bytes, codes::ZIP);
    let commented = archive(|zip| {
        zip.start_file("vnfd.yaml", options()).unwrap();
        zip.write_all(VNFD.as_bytes()).unwrap();
        zip.set_comment("an ordinary comment").unwrap();
    });
    assert!(!refused(commented, &Limits::default()).contains(&codes::ZIP));
}

#[test]
fn data_before_the_start_is_refused() {
    let mut bytes = b"#!/bin/sh\nexit\n".to_vec();
    bytes.extend(with(&[("vnfd.yaml", VNFD.as_bytes())]));
    refused_for(bytes, codes::ZIP);
    // The same if the archive's offsets include the prefix.
    let mut cursor = std::io::Cursor::new(b"MZ, a program in disguise".to_vec());
    cursor.set_position(25);
    let mut zip = zip::ZipWriter::new(cursor);
    zip.start_file("vnfd.yaml", options()).unwrap();
    zip.write_all(VNFD.as_bytes()).unwrap();
    refused_for(zip.finish().unwrap().into_inner(), codes::ZIP);
}

#[test]
fn names_that_are_equal_on_other_systems_are_refused() {
    for (one, other) in [
        ("\u{e9}.txt", "e\u{301}.txt"),
        ("A.txt", "a.txt"),
        ("x", "X/y"),
        ("\u{fb01}le", "file"),
    ] {
        let files: [(&str, &[u8]); 3] =
            [("vnfd.yaml", VNFD.as_bytes()), (one, b"1"), (other, b"2")];
        refused_for(with(&files), codes::ZIP_DUPLICATE);
    }
}

#[test]
fn an_archive_in_an_archive_is_not_unpacked() {
    let inner = with(&[("../../etc/passwd.yaml", b"harm")]);
    let found = refused(
        with(&[("vnfd.yaml", VNFD.as_bytes()), ("inner.csar", &inner)]),
        &Limits::default(),
    );
    assert!(
        !found.iter().any(|code| code.starts_with("E-ZIP")),
        "the inner archive was unpacked: {found:?}"
    );
}

#[test]
fn large_documents_are_refused_without_parsing() {
    let mut limits = Limits::default();
    limits.ratio = u64::MAX;
    let large = format!("{VNFD}description: {}\n", "x".repeat(100 << 20));
    assert_eq!(
        refused(with(&[("vnfd.yaml", large.as_bytes())]), &limits),
        [codes::YAML]
    );
}

#[test]
fn too_many_imports_are_refused() {
    let mut entry = format!("{VNFD}imports:\n");
    let mut files = Vec::new();
    for number in 0..9_000 {
        let line = format!("  - t{number}.yaml\n");
        entry.push_str(&line);
        files.push(format!("t{number}.yaml"));
    }
    let mut entries: Vec<(&str, &[u8])> = files
        .iter()
        .map(|name| (name.as_str(), VNFD.as_bytes()))
        .collect();
    let meta = b"Entry-Definitions: vnfd.yaml\n";
    entries.extend([
        ("vnfd.yaml", entry.as_bytes()),
        ("TOSCA-Metadata/TOSCA.meta", meta),
    ]);
    refused_for(with(&entries), codes::IMPORT);
}

/// A descriptor with a parameter of type `A`, and these data types.
fn with_data_types(types: &str) -> String {
    format!(
        "{VNFD}imports: [etsi_nfv_sol001_vnfd_types.yaml]
data_types:
  Parameters: {{derived_from: tosca.datatypes.nfv.VnfOperationAdditionalParameters, properties: {{a: {{type: A, required: false}}}}}}
{types}
interface_types:
  Vnflcm: {{derived_from: tosca.interfaces.nfv.Vnflcm, operations: {{instantiate: {{inputs: {{additional_parameters: {{type: Parameters}}}}}}}}}}
node_types:
  Vnf:
    derived_from: tosca.nodes.nfv.VNF
    properties:
      descriptor_id: {{type: string, default: a}}
      descriptor_version: {{type: string, default: a}}
      provider: {{type: string, default: a}}
      product_name: {{type: string, default: a}}
      software_version: {{type: string, default: a}}
      flavour_id: {{type: string, default: a}}
    interfaces: {{Vnflcm: {{type: Vnflcm}}}}
topology_template:
  node_templates: {{VNF: {{type: Vnf}}}}
"
    )
}

#[test]
fn types_that_contain_each_other_endlessly_are_refused() {
    let wide: Vec<String> = (0..10)
        .map(|number| format!("p{number}: {{type: A, required: false}}"))
        .collect();
    let exploding = with_data_types(&format!("  A: {{properties: {{{}}}}}", wide.join(", ")));
    assert_eq!(
        refused(
            with(&[("vnfd.yaml", exploding.as_bytes())]),
            &Limits::default()
        ),
        [codes::TYPE_BOMB]
    );
    let list = with_data_types("  A: {properties: {next: {type: A, required: false}}}");
    let package = Package::from_bytes(with(&[("vnfd.yaml", list.as_bytes())]), &Limits::default());
    assert!(
        package.unwrap().vnfd().flavours["a"]
            .additional_params_schema("instantiate")
            .is_some()
    );
}

/// 10^8 servers are counted without creating any of them.
#[test]
fn a_descriptor_with_too_many_instances_is_refused_with_the_position() {
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../vnfd-samples/vnf-flavours"
    );
    for (from, to) in [
        (
            "max_number_of_instances: 1}",
            "max_number_of_instances: 100000000}",
        ),
        (
            "initial_delta: {number_of_instances: 1}",
            "initial_delta: {number_of_instances: 100000000}",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let packed = vnfm_descriptor::pack(sample.as_ref(), &Limits::default()).unwrap();
        zip::ZipArchive::new(Cursor::new(packed))
            .unwrap()
            .extract(folder.path())
            .unwrap();
        let file = folder.path().join("Definitions/simple.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&file, text.replace(from, to)).unwrap();
        let report = match Package::open(folder.path(), &Limits::default()) {
            Ok(package) => package.warnings().to_vec(),
            Err(findings) => findings.as_slice().to_vec(),
        };
        let found = report
            .iter()
            .find(|finding| finding.code == codes::RESOURCES);
        if from.starts_with("max") {
            assert!(
                found.is_none(),
                "only the maximum of the profile is too large"
            );
            continue;
        }
        let message = found.unwrap().to_string();
        assert!(message.starts_with("Definitions/simple.yaml:"), "{message}");
        assert!(
            message.contains("more than 10000") && message.contains("limits.resources"),
            "{message}"
        );
    }
}
