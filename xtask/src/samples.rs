//! `cargo xtask samples`: packs each folder of `vnfd-samples` into a .csar file.
//!
//! Reproducible: names are sorted and times omitted.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::paths;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the files; created if it does not exist.
    #[arg(default_value = "target/samples")]
    folder: PathBuf,
}

/// Packs every sample and prints the files' paths.
///
/// # Errors
/// If a sample cannot be packed or its file cannot be written.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    std::fs::create_dir_all(&arguments.folder)
        .with_context(|| format!("cannot create the folder `{}`", arguments.folder.display()))?;
    for folder in sorted(&paths::root().join("vnfd-samples"))? {
        if !folder.join("TOSCA-Metadata").is_dir() {
            continue;
        }
        let bytes = pack(&folder).with_context(|| format!("cannot pack `{}`", folder.display()))?;
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let file = arguments.folder.join(format!("{name}.csar"));
        std::fs::write(&file, bytes)
            .with_context(|| format!("cannot write `{}`", file.display()))?;
        println!("{}", file.display());
    }
    Ok(())
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn pack(folder: &Path) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    add(folder, folder, &mut archive)?;
    Ok(archive.finish()?.into_inner())
}

fn add(top: &Path, folder: &Path, archive: &mut ZipWriter<Cursor<Vec<u8>>>) -> Result<()> {
    for path in sorted(folder)? {
        if path.is_dir() {
            add(top, &path, archive)?;
        } else {
            let name = path.strip_prefix(top)?.to_string_lossy().into_owned();
            let options =
                SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
            archive.start_file(name, options.last_modified_time(zip::DateTime::default()))?;
            archive.write_all(&std::fs::read(&path)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_reproducible() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("TOSCA-Metadata")).unwrap();
        std::fs::write(
            folder.path().join("TOSCA-Metadata/TOSCA.meta"),
            "CSAR-Version: 1.1\n",
        )
        .unwrap();
        std::fs::write(folder.path().join("vnfd.yaml"), "a: 1\n").unwrap();
        let bytes = pack(folder.path()).unwrap();
        assert_eq!(bytes, pack(folder.path()).unwrap());
        let archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        let names: Vec<_> = archive.file_names().map(Result::unwrap).collect();
        assert_eq!(names, ["TOSCA-Metadata/TOSCA.meta", "vnfd.yaml"]);
    }
}
