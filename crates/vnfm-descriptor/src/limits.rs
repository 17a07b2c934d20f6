//! What a package may cost before it is refused: entries, bytes, ratio, depth.
//!
//! The defaults hold for packages with VM images in them. A server that takes packages from
//! strangers lowers them; nothing in this crate reads beyond them.

/// Limits on everything that a hostile package could make large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Files and folders in the archive.
    pub entries: usize,
    /// Bytes of all files together, counted while they are read.
    pub total_bytes: u64,
    /// Bytes of one file that is read into memory, such as a manifest or a script.
    pub file_bytes: u64,
    /// Bytes that one compressed byte may become; looked at above 1 MiB.
    pub ratio: u64,
    /// Length of a path in the archive.
    pub path_bytes: usize,
    /// Bytes of one YAML file.
    pub yaml_bytes: usize,
    /// Nesting of one YAML file.
    pub yaml_depth: usize,
    /// Nodes of one YAML file, aliases counted as often as they are used.
    pub yaml_nodes: usize,
    /// YAML files that a descriptor may import.
    pub imports: usize,
    /// Resources (servers, ports, volumes, links) of one instance, at any level that the descriptor describes.
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
