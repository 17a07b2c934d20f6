//! `vnfmctl bundle create`: hashes everything, then writes index, signature and files.

use super::super::package::open;
use super::super::package_files::{Packed, pack, read_key, stem, write_atomically};
use crate::args::CreateBundle;
use crate::bundle::{BundledFile, Index, Item, Kind, SCHEMA_VERSION, Source, copy_hashed, write};
use crate::client::{Failure, Outcome, local};
use crate::output::Output;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use vnfm_plugin_host::inspect;
use vnfm_signature::Certificate;

/// Files that mark an OCI image layout.
const LAYOUT: [&str; 2] = ["oci-layout", "index.json"];
/// How deep the folders of an image layout are nested: `blobs/sha256`.
const MAX_DEPTH: usize = 2;

/// An item with its files on this machine.
struct Input {
    item: Item,
    source: Source,
    /// Keeps the archive that a package folder was packed into.
    _packed: Option<Packed>,
}

pub(super) fn run(output: Output, args: &CreateBundle) -> Outcome<()> {
    if args.file.exists() {
        return Err(local(format!("`{}` already exists", args.file.display())));
    }
    let (key, chain) = read_key(&args.key, &args.cert, args.pss)?;
    let inputs = inputs(args)?;
    let (items, sources): (Vec<Item>, Vec<Source>) = inputs
        .iter()
        .map(|input| (input.item.clone(), input.source.clone()))
        .unzip();
    let index = Index {
        schema_version: SCHEMA_VERSION,
        items,
    };
    if let Some(violation) = index.violation(u64::MAX).or_else(|| same_vnfd(&index)) {
        return Err(local(format!("cannot create this bundle: {violation}")));
    }
    write_atomically(&args.file, |file| {
        write(file, &index, &sources, (&key, &chain))
    })?;
    let (count, bytes) = (index.items.len(), std::fs::metadata(&args.file));
    let bytes = bytes.map_err(local)?.len();
    let signer = chain.first().map(Certificate::subject).unwrap_or_default();
    let sentence = format!(
        "wrote {count} items in {bytes} bytes to `{}`, signed as {signer}",
        args.file.display()
    );
    let rows: Vec<_> = index.items.iter().map(super::row).collect();
    output.done(
        &sentence,
        &json!({"file": args.file, "bytes": bytes, "signer": signer, "items": rows}),
    )
}

/// All items, in the order in which they are installed.
fn inputs(args: &CreateBundle) -> Outcome<Vec<Input>> {
    let binaries = args.binaries.iter().map(|path| binary(path));
    let plugins = args.plugins.iter().map(|path| plugin(path));
    let images = args.images.iter().map(|path| image(path));
    let packages = args.packages.iter().map(|path| vnf_package(path));
    let all = binaries.chain(plugins).chain(images).chain(packages);
    let all = all.collect::<Outcome<Vec<Input>>>()?;
    if all.is_empty() {
        return Err(Failure::Hinted {
            message: "the bundle would be empty".to_owned(),
            hint: "name its contents with --package, --plugin, --binary and --image".to_owned(),
        });
    }
    Ok(all)
}

/// A server accepts one package of each VNFD.
fn same_vnfd(index: &Index) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut ids = index
        .items
        .iter()
        .filter_map(|item| item.vnfd_id.as_deref());
    let twice = ids.find(|id| !seen.insert(*id))?;
    Some(format!("two packages have the vnfdId `{twice}`"))
}

fn binary(path: &Path) -> Outcome<Input> {
    let name = file_name(path)?;
    let file = hashed(path, format!("{}/{name}", Kind::Binary.folder()))?;
    Ok(Input::new(Kind::Binary, name, vec![(file, path.into())]))
}

fn plugin(path: &Path) -> Outcome<Input> {
    let declared = inspect(path)?.declaration;
    let (name, version) = (declared.name, declared.version);
    let file = hashed(
        path,
        format!("{}/{name}-{version}.so", Kind::Plugin.folder()),
    )?;
    let mut input = Input::new(Kind::Plugin, name, vec![(file, path.into())]);
    input.item.version = Some(version);
    Ok(input)
}

/// A package as it is, with the outer archive of its signature; a folder is packed.
fn vnf_package(path: &Path) -> Outcome<Input> {
    let packed = pack(path)?;
    let package = open(packed.path())?.package;
    let name = stem(path);
    let is_zip = path.extension().is_some_and(|end| end == "zip");
    let end = if is_zip { "zip" } else { "csar" };
    let archive = packed.path().to_owned();
    let file = hashed(&archive, format!("{}/{name}.{end}", Kind::Package.folder()))?;
    let mut input = Input::new(Kind::Package, name, vec![(file, archive)]);
    input.item.version = Some(package.vnfd().software_version.clone());
    input.item.vnfd_id = Some(package.vnfd().descriptor_id.clone());
    input.item.package_sha256 = Some(package.sha256().to_owned());
    Ok(Input {
        _packed: Some(packed),
        ..input
    })
}

/// An image: each blob must have the hash that is its name.
fn image(folder: &Path) -> Outcome<Input> {
    let is_layout = LAYOUT.iter().all(|name| folder.join(name).is_file());
    if !is_layout {
        return Err(Failure::Hinted {
            message: format!("`{}` is not an OCI image layout", folder.display()),
            hint: "`skopeo copy docker://IMAGE oci:FOLDER:TAG` writes one; an archive must be unpacked".to_owned(),
        });
    }
    let name = file_name(&folder.canonicalize().map_err(local)?)?;
    let mut paths = Vec::new();
    list(folder, "", 0, &mut paths)?;
    let mut files = Vec::new();
    for path in paths {
        let source = folder.join(&path);
        let file = hashed(&source, format!("{}/{name}/{path}", Kind::Image.folder()))?;
        let is_blob = path.starts_with("blobs/sha256/");
        if is_blob && file.file_name() != file.sha256 {
            return Err(local(format!(
                "the blob `{}` is damaged: it has SHA-256 {}",
                source.display(),
                file.sha256
            )));
        }
        files.push((file, source));
    }
    Ok(Input::new(Kind::Image, name, files))
}

/// Adds the paths of all files below a folder, sorted; whatever is neither a file nor a folder is refused.
fn list(folder: &Path, prefix: &str, depth: usize, paths: &mut Vec<String>) -> Outcome<()> {
    let failed = |error: io::Error| local(format!("cannot read `{}`: {error}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().map_err(failed)?;
        let path = format!("{prefix}{}", file_name(&entry.path())?);
        if kind.is_file() {
            paths.push(path);
        } else if kind.is_dir() && depth < MAX_DEPTH {
            list(&entry.path(), &format!("{path}/"), depth + 1, paths)?;
        } else {
            return Err(local(format!(
                "`{}` cannot be in a bundle: an image layout has files and the folder `blobs` only",
                entry.path().display()
            )));
        }
    }
    Ok(())
}

impl Input {
    fn new(kind: Kind, name: String, files: Vec<(BundledFile, PathBuf)>) -> Self {
        let (files, source) = files.into_iter().unzip();
        let item = Item {
            kind,
            name,
            version: None,
            vnfd_id: None,
            package_sha256: None,
            files,
        };
        Self {
            item,
            source,
            _packed: None,
        }
    }
}

fn file_name(path: &Path) -> Outcome<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned)
        .ok_or_else(|| local(format!("`{}` has no valid file name", path.display())))
}

/// The entry of a file at `path` in the bundle.
fn hashed(source: &Path, path: String) -> Outcome<BundledFile> {
    let failed = |error: io::Error| local(format!("cannot read `{}`: {error}", source.display()));
    let file = File::open(source).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(local(format!("`{}` is not a file", source.display())));
    }
    let (size, sha256) = copy_hashed(file, &mut io::sink()).map_err(failed)?;
    Ok(BundledFile { path, size, sha256 })
}
