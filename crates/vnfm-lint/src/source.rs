//! The files of a package, for the rules.

use vnfm_descriptor::Limits;
use vnfm_descriptor::raw::{Archive, Node, Sink, has_extension, parse_all};

/// Larger text files are not searched, in bytes.
pub(crate) const MAX_TEXT_BYTES: u64 = 1 << 20;

/// An archive, with access to its text files.
pub(crate) struct Source<'a> {
    pub(crate) archive: &'a Archive,
    pub(crate) limits: &'a Limits,
    pub(crate) paths: Vec<&'a str>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(archive: &'a Archive, limits: &'a Limits) -> Self {
        Self {
            archive,
            limits,
            paths: archive.paths().collect(),
        }
    }

    /// A file's text; `None` if it is large or not UTF-8.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let limit = MAX_TEXT_BYTES.max(self.limits.yaml_bytes as u64);
        String::from_utf8(self.archive.read(path, limit).ok()?).ok()
    }

    /// The documents of a YAML file; `None` if it cannot be read, which is reported elsewhere.
    pub(crate) fn yaml(&self, path: &str) -> Option<Vec<Node>> {
        parse_all(&self.text(path)?, path, self.limits, &mut Sink::default())
    }

    pub(crate) fn yaml_paths(&self) -> impl Iterator<Item = &'a str> + use<'a, '_> {
        self.paths
            .iter()
            .copied()
            .filter(|path| has_extension(path, &["yaml", "yml"]))
    }
}
