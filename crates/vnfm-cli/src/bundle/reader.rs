//! Opens a bundle: checks its structure against the index, verifies the signature, and copies files out of it.
//!
//! Nothing in the file is trusted: each entry must be a regular file with the path and size that the index states, in
//! its order. Extensions of tar (long names, links, devices, sparse files) are refused by their type.

use super::{BundledFile, INDEX, Index, Item, SCHEMA_VERSION, SIGNATURE, copy_hashed};
use crate::client::{Failure, Outcome, local};
use crate::input;
use indicatif::ProgressBar;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tar::{Archive, Entry};
use vnfm_signature::{Fault, Signature, Signer, Trust};

/// Largest index in bytes: 10,000 files, with room to spare.
const MAX_INDEX_BYTES: u64 = 4 << 20;
/// Largest signature in bytes.
const MAX_SIGNATURE_BYTES: u64 = 256 << 10;

/// A bundle whose structure matches its index; neither signature nor hashes are verified yet.
pub(crate) struct Bundle {
    path: PathBuf,
    file: File,
    structure: Structure,
}

/// What the bundle's file has where.
struct Structure {
    index: Index,
    /// The index as it is in the file, which is signed.
    signed: Vec<u8>,
    signature: Vec<u8>,
    /// Offset of each file's content, by item.
    offsets: Vec<Vec<u64>>,
}

impl Structure {
    /// Reads the index and compares the headers of all entries with it; `size` is that of the bundle in bytes.
    fn read(path: &Path, file: &File, size: u64) -> Outcome<Self> {
        let mut archive = Archive::new(file);
        let entries = archive.entries_with_seek();
        let entries = entries.map_err(|error| unreadable(path, &error))?;
        let mut entries = Entries {
            path,
            size,
            tar: entries.raw(true),
        };
        let signed = entries.small(INDEX, MAX_INDEX_BYTES)?;
        let signature = entries.small(SIGNATURE, MAX_SIGNATURE_BYTES)?;
        let index = parse(&signed).map_err(|why| invalid(path, &format!("its index: {why}")))?;
        if let Some(violation) = index.violation(size) {
            return Err(invalid(path, &format!("its index: {violation}")));
        }
        let mut offsets = Vec::new();
        for item in &index.items {
            let located = item.files.iter().map(|file| entries.locate(file));
            offsets.push(located.collect::<Outcome<Vec<u64>>>()?);
        }
        entries.end()?;
        Ok(Self {
            index,
            signed,
            signature,
            offsets,
        })
    }
}

impl Bundle {
    /// Opens a bundle and checks its structure.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no bundle, is truncated, or its entries are not those of the index.
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
        let structure = Structure::read(path, &file, metadata.len())?;
        Ok(Self {
            path: path.to_owned(),
            file,
            structure,
        })
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.structure.index.items
    }

    /// Size of all files in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.items().iter().map(Item::bytes).sum()
    }

    /// Verifies the index's signature; `trust` checks the signers at a time in seconds since 1970.
    ///
    /// # Errors
    ///
    /// The signature does not match the index, or a signer is not trusted.
    pub(crate) fn verify_signature(
        &self,
        trust: Option<(&Trust, u64)>,
    ) -> Result<Vec<Signer>, Fault> {
        let signers =
            Signature::read(&self.structure.signature)?.verify(&self.structure.signed, &[])?;
        if let Some((trust, now)) = trust {
            for signer in &signers {
                trust.check(signer, now)?;
            }
        }
        Ok(signers)
    }

    /// Compares every file with its hash.
    ///
    /// # Errors
    ///
    /// A file was changed, or cannot be read.
    pub(crate) fn verify_contents(&self, bar: &ProgressBar) -> Outcome<()> {
        for (number, item) in self.items().iter().enumerate() {
            for file in 0..item.files.len() {
                self.copy((number, file), &mut bar.wrap_write(io::sink()))?;
            }
        }
        Ok(())
    }

    /// Copies file number `file` of item number `item`. An error may come after bytes were written.
    ///
    /// # Errors
    ///
    /// The content does not have its hash, or reading or writing fails.
    pub(crate) fn copy(&self, (item, file): (usize, usize), to: &mut dyn Write) -> Outcome<()> {
        let offset = self.structure.offsets[item][file];
        let entry = &self.structure.index.items[item].files[file];
        let failed = |error: &dyn std::fmt::Display| {
            local(format!(
                "cannot copy `{}` out of `{}`: {error}",
                entry.path,
                self.path.display()
            ))
        };
        let mut from = &self.file;
        from.seek(SeekFrom::Start(offset))
            .map_err(|error| failed(&error))?;
        let copied = copy_hashed(from.take(entry.size), to).map_err(|error| failed(&error))?;
        if copied != (entry.size, entry.sha256.clone()) {
            let what = format!("`{}` was changed: it has SHA-256 {}", entry.path, copied.1);
            return Err(invalid(&self.path, &what));
        }
        Ok(())
    }
}

/// The entries of the tar, of which each must be the expected one.
struct Entries<'a> {
    path: &'a Path,
    /// Size of the bundle in bytes.
    size: u64,
    tar: tar::Entries<'a, &'a File>,
}

impl<'a> Entries<'a> {
    /// The next entry, which must be a complete regular file with this path.
    fn next(&mut self, path: &str) -> Outcome<Entry<'a, &'a File>> {
        let missing = || invalid(self.path, &format!("`{path}` is missing; is it truncated?"));
        let entry = self.tar.next().ok_or_else(missing)?;
        let entry = entry.map_err(|error| {
            let what = format!("{error}; it is truncated, or another kind of file");
            invalid(self.path, &what)
        })?;
        let kind = entry.header().entry_type();
        let found = entry.path_bytes();
        if *found != *path.as_bytes() || !kind.is_file() {
            let found = String::from_utf8_lossy(&found);
            let what =
                format!("it has `{found}` (tar type {kind:?}) in place of the file `{path}`");
            return Err(invalid(self.path, &what));
        }
        let end = entry.raw_file_position().checked_add(entry.size());
        if end.is_none_or(|end| end > self.size) {
            return Err(invalid(self.path, &format!("it is truncated in `{path}`")));
        }
        drop(found);
        Ok(entry)
    }

    /// Reads an entry of at most `max_bytes` into memory.
    fn small(&mut self, path: &str, max_bytes: u64) -> Outcome<Vec<u8>> {
        let entry = self.next(path)?;
        input::stream(entry, max_bytes)
            .map_err(|error| invalid(self.path, &format!("`{path}`: {error}")))
    }

    /// The offset of the content of the next entry, which must have path and size of `file`.
    fn locate(&mut self, file: &BundledFile) -> Outcome<u64> {
        let entry = self.next(&file.path)?;
        if entry.size() != file.size {
            let what = format!(
                "`{}` has {} bytes; its index says {}",
                file.path,
                entry.size(),
                file.size
            );
            return Err(invalid(self.path, &what));
        }
        Ok(entry.raw_file_position())
    }

    fn end(mut self) -> Outcome<()> {
        match self.tar.next() {
            None => Ok(()),
            Some(entry) => {
                let path =
                    entry.map(|entry| String::from_utf8_lossy(&entry.path_bytes()).into_owned());
                let path = path.unwrap_or_else(|error| error.to_string());
                let what = format!("it has an entry that its index does not name: `{path}`");
                Err(invalid(self.path, &what))
            }
        }
    }
}

/// Parses an index; a newer version is refused before its unknown members are.
fn parse(text: &[u8]) -> Result<Index, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if value["schemaVersion"] != SCHEMA_VERSION {
        return Err(format!(
            "it is of schemaVersion {}, not {SCHEMA_VERSION}: use the vnfmctl that created the bundle, or a newer one",
            value["schemaVersion"]
        ));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    local(format!("cannot read `{}`: {error}", path.display()))
}

fn invalid(path: &Path, what: &str) -> Failure {
    Failure::Hinted {
        message: format!("`{}` is not a valid bundle: {what}", path.display()),
        hint:
            "copy it to this machine again, or have it created again with `vnfmctl bundle create`"
                .to_owned(),
    }
}
