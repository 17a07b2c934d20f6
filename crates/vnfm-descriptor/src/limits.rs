//! Limits on packages: entries, bytes, compression ratio, nesting.
//!
//! The defaults suit packages with VM images. Lower them on a server that accepts packages from
//! untrusted sources; nothing in this crate reads beyond them.

/// Limits on everything that a hostile package could inflate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Files and folders in an archive.
    pub entries: usize,
    /// Bytes of all files together, unpacked; counted while they are read.
    pub total_bytes: u64,
    /// Bytes of a file that is read into memory, such as a manifest or a script.
    pub file_bytes: u64,
    /// Highest ratio of unpacked to packed bytes of a file; checked above 1 MiB.
    pub ratio: u64,
    /// Bytes of a path in an archive.
    pub path_bytes: usize,
    /// Bytes of a YAML file.
    pub yaml_bytes: usize,
    /// Nesting levels of a YAML file.
    pub yaml_depth: usize,
    /// Nodes of a YAML file, with aliases expanded.
    pub yaml_nodes: usize,
    /// YAML files that a descriptor may import.
    pub imports: usize,
    /// Resources (servers, ports, volumes, links) of an instance, at any level that the descriptor allows.
    pub resources: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            entries: 10_000,
            total_bytes: 64 << 30,
            file_bytes: 64 << 20,
            ratio: 1_000,
            path_bytes: 512,
            yaml_bytes: 4 << 20,
            yaml_depth: 64,
            yaml_nodes: 250_000,
            imports: 200,
            resources: 10_000,
        }
    }
}
