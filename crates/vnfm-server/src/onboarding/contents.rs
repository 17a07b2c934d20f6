//! The contents of a package for its record (SOL005 9.5.3.2, 9.5.3.3): software images and all other artifacts.
//!
//! | member | from |
//! |---|---|
//! | checksum | the manifest; for an image the VNFD; otherwise the bytes are hashed. For an image in OCI layout: its
//! `index.json`, which references all the rest by hash |
//! | size of an image | its bytes |
//! | minimum disk and memory | the VNFD, in whole GiB and MiB; 0 if not given |
//! | version, provider of an image | the VNFD; otherwise those of the VNF |
//! | disk format | the VNFD; `RAW` for a container image without one |
//! | classification | `TOSCA.meta`, or the folder that SOL004 defines for it |
//!
//! Images that exist only on VIMs or in a registry are not part of the package and not listed.

use crate::artifacts;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_descriptor::{Package, SwImage, normalise};
use vnfm_types::{
    ArtifactClassification, Checksum, VnfPackageArtifactInfo, VnfPackageSoftwareImageInfo,
};

/// Software images and other artifacts of a package.
pub(super) struct Contents {
    pub(super) images: Vec<VnfPackageSoftwareImageInfo>,
    pub(super) artifacts: Vec<VnfPackageArtifactInfo>,
}

/// Lists the contents of a package whose external artifacts have been fetched; `at` is the time of onboarding. Blocks.
///
/// # Errors
///
/// If a file of the package cannot be read.
pub(super) fn read(package: &Package, at: Timestamp) -> Result<Contents, String> {
    let reader = Reader {
        package,
        at,
        stated: stated(package),
    };
    let mut images = reader.images()?;
    let layouts: BTreeSet<&str> = package
        .asd()
        .into_iter()
        .flat_map(|asd| &asd.images)
        .map(|image| &*image.layout)
        .collect();
    for image in package.asd().into_iter().flat_map(|asd| &asd.images) {
        images.push(reader.oci((&image.layout, &image.name))?);
    }
    let is_image = |path: &str| layouts.iter().any(|layout| is_below(path, layout));
    let paths = artifacts::artifacts(package).filter(|path| !is_image(path));
    let sets = artifacts::sets(package)?;
    let classes = classes(package);
    let mut all = Vec::new();
    for path in paths {
        all.push(VnfPackageArtifactInfo {
            artifact_path: Some(path.to_owned()),
            artifact_classification: classes(path),
            ..reader.artifact(path, &sets)?
        });
    }
    let image_uris: BTreeSet<_> = images
        .iter()
        .filter_map(|image| image.image_uri.as_deref())
        .collect();
    for external in package
        .externals()
        .iter()
        .filter(|one| !image_uris.contains(&*one.uri))
    {
        all.push(VnfPackageArtifactInfo {
            artifact_uri: Some(external.uri.clone()),
            ..reader.artifact(&external.uri, &sets)?
        });
    }
    Ok(Contents {
        images,
        artifacts: all,
    })
}

struct Reader<'a> {
    package: &'a Package,
    at: Timestamp,
    /// From the manifest, by path or URI.
    stated: BTreeMap<String, Checksum>,
}

impl Reader<'_> {
    /// One entry for each node of the VNFD that uses an image of the package.
    fn images(&self) -> Result<Vec<VnfPackageSoftwareImageInfo>, String> {
        let mut all = BTreeMap::new();
        for (node, image) in artifacts::images(self.package) {
            let Some(path) = &image.artifact else {
                continue;
            };
            if !all.contains_key(node) {
                all.insert(node, self.image((node, path), image)?);
            }
        }
        Ok(all.into_values().collect())
    }

    fn image(
        &self,
        (node, path): (&str, &str),
        image: &SwImage,
    ) -> Result<VnfPackageSoftwareImageInfo, String> {
        let vnfd = self.package.vnfd();
        let own = image
            .checksum
            .as_ref()
            .map(|own| named(&own.algorithm, &own.hash));
        let container = image.container_format.as_deref().unwrap_or("bare");
        let is_external = path.contains("://");
        Ok(VnfPackageSoftwareImageInfo {
            id: node.to_owned(),
            name: image.name.clone(),
            provider: image.provider.as_ref().unwrap_or(&vnfd.provider).clone(),
            version: image
                .version
                .as_ref()
                .unwrap_or(&vnfd.software_version)
                .clone(),
            checksum: own.map_or_else(|| self.checksum(path), Ok)?,
            is_encrypted: false,
            container_format: container.to_ascii_uppercase(),
            disk_format: image
                .disk_format
                .as_deref()
                .unwrap_or("raw")
                .to_ascii_uppercase(),
            created_at: self.at,
            min_disk: image.min_disk_gib.unwrap_or_default() << 30,
            min_ram: image.min_ram_mib.unwrap_or_default() << 20,
            size: self.package.size(path).map_err(|error| error.to_string())?,
            image_path: (!is_external).then(|| path.to_owned()),
            image_uri: is_external.then(|| path.to_owned()),
        })
    }

    /// A container image in OCI layout in the package.
    fn oci(&self, (layout, name): (&str, &str)) -> Result<VnfPackageSoftwareImageInfo, String> {
        let vnfd = self.package.vnfd();
        let index = if layout.is_empty() {
            "index.json".to_owned()
        } else {
            format!("{layout}/index.json")
        };
        let mut size = 0;
        for path in self.package.paths().filter(|path| is_below(path, layout)) {
            size += self.package.size(path).map_err(|error| error.to_string())?;
        }
        let tag = name
            .rsplit('/')
            .next()
            .and_then(|last| last.split_once(':'));
        Ok(VnfPackageSoftwareImageInfo {
            id: name.to_owned(),
            name: name.to_owned(),
            provider: vnfd.provider.clone(),
            version: tag
                .map_or(vnfd.software_version.as_str(), |(_, tag)| tag)
                .to_owned(),
            checksum: self.checksum(&index)?,
            is_encrypted: false,
            container_format: "DOCKER".to_owned(),
            disk_format: "RAW".to_owned(),
            created_at: self.at,
            min_disk: 0,
            min_ram: 0,
            size,
            image_path: Some(layout.to_owned()),
            image_uri: None,
        })
    }

    /// Properties of a file, in the package or external, without its location.
    fn artifact(
        &self,
        path: &str,
        sets: &BTreeMap<String, String>,
    ) -> Result<VnfPackageArtifactInfo, String> {
        Ok(VnfPackageArtifactInfo {
            artifact_path: None,
            artifact_uri: None,
            checksum: self.checksum(path)?,
            is_encrypted: false,
            non_mano_artifact_set_id: sets.get(path).cloned(),
            artifact_classification: None,
        })
    }

    fn checksum(&self, path: &str) -> Result<Checksum, String> {
        if let Some(stated) = self.stated.get(path) {
            return Ok(stated.clone());
        }
        let hash = self
            .package
            .sha256_of(path)
            .map_err(|error| error.to_string())?;
        Ok(Checksum {
            algorithm: "SHA-256".into(),
            hash,
        })
    }
}

/// The checksums of the manifest, which were verified when the package was opened.
fn stated(package: &Package) -> BTreeMap<String, Checksum> {
    let sources = package
        .manifest()
        .map(|manifest| manifest.sources.as_slice());
    let checksums = sources.unwrap_or_default().iter().filter_map(|source| {
        let path = if source.is_external() {
            source.source.clone()
        } else {
            normalise(&source.source).ok()?
        };
        Some((
            path,
            named(source.algorithm.as_ref()?, source.hash.as_ref()?),
        ))
    });
    checksums.collect()
}

/// A checksum with the standard's spelling of the algorithm: `sha256` becomes `SHA-256`.
fn named(algorithm: &str, hash: &str) -> Checksum {
    let mut algorithm = algorithm.to_ascii_uppercase().replace('_', "-");
    if let Some(bits) = algorithm
        .strip_prefix("SHA")
        .filter(|bits| !bits.starts_with('-'))
    {
        algorithm = format!("SHA-{bits}");
    }
    Checksum {
        algorithm,
        hash: hash.to_ascii_lowercase(),
    }
}

/// The classification of an artifact: from `TOSCA.meta`, or by its folder in SOL004 4.1.2 for packages without one.
fn classes(package: &Package) -> impl Fn(&str) -> Option<ArtifactClassification> {
    let meta = package
        .paths()
        .find(|path| path.eq_ignore_ascii_case("TOSCA-Metadata/TOSCA.meta"));
    let text = meta
        .and_then(|path| package.read(path).ok())
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let named = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter_map(|(key, value)| {
            let key = key.trim().to_ascii_lowercase();
            let class = match key.strip_prefix("etsi-").unwrap_or(&key) {
                "entry-change-log" => ArtifactClassification::History,
                "entry-tests" => ArtifactClassification::Testing,
                "entry-licenses" => ArtifactClassification::License,
                _ => return None,
            };
            Some((normalise(value.trim().trim_end_matches('/')).ok()?, class))
        });
    let mut locations: Vec<_> = named.collect();
    let default_locations = [
        ("ChangeLog.txt", ArtifactClassification::History),
        ("Tests", ArtifactClassification::Testing),
        ("Licenses", ArtifactClassification::License),
    ];
    locations.extend(default_locations.map(|(location, class)| (location.to_owned(), class)));
    move |path| {
        let found = locations
            .iter()
            .find(|(location, _)| path == location || is_below(path, location));
        found.map(|(_, class)| *class)
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
}
