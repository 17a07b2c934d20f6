//! Packaged Helm charts: a gzipped tar of one folder that contains `Chart.yaml` (Helm's "chart file structure").
//! Only the metadata is read; nothing is rendered.

use crate::archive::ReadError;
use crate::limits::Limits;
use crate::sink::Sink;
use crate::yaml::{Node, parse};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::io::{self, Read};

/// The metadata of a Helm chart, from its `Chart.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Chart {
    /// `apiVersion`: `v1` for Helm 2, `v2` for Helm 3.
    pub api_version: String,
    /// `name` of the chart, which is not the release name.
    pub name: String,
    /// `version` of the chart, as written.
    pub version: String,
    /// `appVersion`: the version of the application.
    pub app_version: Option<String>,
    /// `description`: one sentence for people.
    pub description: Option<String>,
    /// Whether it is a library chart, which deploys nothing itself.
    pub library: bool,
    /// The names of the charts that it depends on.
    pub dependencies: Vec<String>,
}

/// Why a file is not a Helm chart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChartError(String);

/// Bytes of a chart that are unpacked at most.
const MAX_UNPACKED: u64 = 64 << 20;
pub(crate) const CHART_FILE: &str = "Chart.yaml";

impl Chart {
    /// Reads a packaged chart: a gzipped tar with a `Chart.yaml` in its folder.
    ///
    /// # Errors
    /// It is not a Helm chart, or its `Chart.yaml` has more than [`Limits::yaml_bytes`].
    pub fn read(packed: &[u8], limits: &Limits) -> Result<Self, ChartError> {
        let text = chart_yaml(packed, limits).map_err(ChartError)?;
        let mut sink = Sink::default();
        let Some(node) = parse(&text, CHART_FILE, limits, &mut sink) else {
            let findings = sink.all();
            let cause = findings.first().map(ToString::to_string);
            let cause = cause.unwrap_or_default();
            let message = format!("its `{CHART_FILE}` cannot be read: {cause}");
            return Err(ChartError(message));
        };
        let text = |key: &str| node.get(key).and_then(Node::as_str).map(ToOwned::to_owned);
        let missing = |key: &str| ChartError(format!("its `{CHART_FILE}` has no `{key}`"));
        let required = |key: &str| text(key).ok_or_else(|| missing(key));
        let dependencies = node.get("dependencies").map(Node::items);
        let name = |dependency: &Node| dependency.get("name")?.as_str().map(ToOwned::to_owned);
        Ok(Self {
            api_version: required("apiVersion")?,
            name: required("name")?,
            version: required("version")?,
            app_version: text("appVersion"),
            description: text("description"),
            library: text("type").as_deref() == Some("library"),
            dependencies: dependencies
                .into_iter()
                .flatten()
                .filter_map(name)
                .collect(),
        })
    }

    /// Whether a packaged chart may have CRDs: it has a folder `crds`, a packed chart in it, or cannot be read.
    pub fn may_have_crds(packed: &[u8]) -> bool {
        let mut tar = tar::Archive::new(GzDecoder::new(packed).take(MAX_UNPACKED));
        let Ok(mut entries) = tar.entries() else {
            return true;
        };
        let found = entries.any(|entry| entry.map_or(true, |entry| is_crd_or_packed(&entry)));
        found || tar.into_inner().limit() == 0
    }
}

/// Whether an entry is in a folder named `crds`, or is a packed chart.
fn is_crd_or_packed<R: Read>(entry: &tar::Entry<'_, R>) -> bool {
    let path = entry.path_bytes();
    path.ends_with(b".tgz") || path.split(|byte| *byte == b'/').any(|part| part == b"crds")
}

/// Packs the files of a chart's folder, each with its path below `name`. Equal files are packed into equal bytes.
///
/// # Errors
/// They have more bytes than a chart may.
pub(crate) fn pack(
    name: &str,
    files: impl Iterator<Item = Result<(String, Vec<u8>), ReadError>>,
) -> Result<Vec<u8>, ReadError> {
    let failed = |reason: String| ReadError::Io {
        path: name.to_owned(),
        reason,
    };
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut left = MAX_UNPACKED;
    for file in files {
        let (path, bytes) = file?;
        left = left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| failed(format!("the chart has more than {MAX_UNPACKED} bytes")))?;
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        let added = tar.append_data(&mut header, format!("{name}/{path}"), &*bytes);
        added.map_err(|error| failed(error.to_string()))?;
    }
    let packed = tar.into_inner().and_then(GzEncoder::finish);
    packed.map_err(|error| failed(error.to_string()))
}

/// The text of `Chart.yaml` in a gzipped tar.
fn chart_yaml(packed: &[u8], limits: &Limits) -> Result<String, String> {
    let mut tar = tar::Archive::new(GzDecoder::new(packed).take(MAX_UNPACKED));
    let found = find_chart_yaml(&mut tar, limits.yaml_bytes as u64);
    // A tar that goes on where the limit cuts it off is not damaged.
    let is_cut = tar.into_inner().limit() == 0;
    let found = found.or_else(|reason| if is_cut { Ok(None) } else { Err(reason) })?;
    found.ok_or_else(|| format!("it has no folder with a `{CHART_FILE}`"))
}

/// The text of `<folder>/Chart.yaml`, a regular file of at most `max` bytes.
fn find_chart_yaml<R: Read>(tar: &mut tar::Archive<R>, max: u64) -> Result<Option<String>, String> {
    let not_a_tar = |error: io::Error| format!("it is not a gzipped tar: {error}");
    for entry in tar.entries().map_err(not_a_tar)? {
        let entry = entry.map_err(not_a_tar)?;
        if !is_chart_yaml(&entry) {
            continue;
        }
        let size = entry.size();
        if size > max {
            return Err(format!("its `{CHART_FILE}` has more than {max} bytes"));
        }
        let mut text = String::new();
        return match entry.take(max).read_to_string(&mut text) {
            Ok(_) if text.len() as u64 == size => Ok(Some(text)),
            Ok(_) => Err("it is truncated".to_owned()),
            Err(error) => Err(format!("its `{CHART_FILE}` cannot be read: {error}")),
        };
    }
    Ok(None)
}

/// Whether an entry is the regular file `<folder>/Chart.yaml`.
fn is_chart_yaml<R: Read>(entry: &tar::Entry<'_, R>) -> bool {
    let path = entry.path_bytes();
    let path = path.strip_prefix(b"./").unwrap_or(&path);
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    entry.header().entry_type().is_file()
        && matches!(parts[..], [folder, file] if !folder.is_empty() && file == CHART_FILE.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// Size in bytes of a tar header, and of the blocks that contents are padded to.
    const BLOCK: usize = 512;

    /// A tar archive of these files.
    fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    /// The tar with another size in the header of its first file.
    fn with_size(mut tar: Vec<u8>, size: &[u8; 11]) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes().copy_from_slice(&tar[..BLOCK]);
        header.as_mut_bytes()[124..135].copy_from_slice(size);
        header.set_cksum();
        tar[..BLOCK].copy_from_slice(header.as_bytes());
        tar
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    fn read_default(bytes: &[u8]) -> Result<Chart, ChartError> {
        Chart::read(bytes, &Limits::default())
    }

    const WEB: &str = "apiVersion: v2\nname: web\nversion: 1.10.0\nappVersion: \"1\"\ndependencies:\n  - {name: redis, version: 1.0.0}\n";

    #[test]
    fn metadata_is_read_from_chart_yaml() {
        let long = vec![b'x'; 3 * BLOCK + 1];
        let files = [
            ("web/charts/redis/Chart.yaml", &b"name: redis"[..]),
            ("web/values.yaml", &long),
            ("web/Chart.yaml", WEB.as_bytes()),
        ];
        let chart = read_default(&packed(&tar(&files))).unwrap();
        assert_eq!(
            (chart.name.as_str(), chart.version.as_str()),
            ("web", "1.10.0")
        );
        assert_eq!(chart.app_version.as_deref(), Some("1"));
        assert_eq!(
            (chart.library, chart.dependencies),
            (false, vec!["redis".to_owned()])
        );
    }

    #[test]
    fn crds_are_expected_in_their_folder_in_packed_charts_and_in_what_cannot_be_read() {
        for (path, expected) in [
            ("web/templates/crds.yaml", false),
            ("web/crds/a.yaml", true),
            ("web/charts/redis/crds/a.yaml", true),
            ("web/charts/redis-1.0.0.tgz", true),
        ] {
            let files = [("web/Chart.yaml", WEB.as_bytes()), (path, &b"a: 1"[..])];
            assert_eq!(
                Chart::may_have_crds(&packed(&tar(&files))),
                expected,
                "{path}"
            );
        }
        assert!(Chart::may_have_crds(b"no tar"));
        let mut cut = packed(&tar(&[("web/Chart.yaml", WEB.as_bytes())]));
        cut.truncate(cut.len() / 2);
        assert!(Chart::may_have_crds(&cut));
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        let one = |name: &str, text: &[u8]| packed(&tar(&[(name, text)]));
        let bent = with_size(tar(&[("web/Chart.yaml", WEB.as_bytes())]), b"not a size!");
        let mut short = tar(&[("web/Chart.yaml", WEB.as_bytes())]);
        short.truncate(BLOCK + 10);
        for (bytes, reason) in [
            (b"apiVersion: v2, name: web".to_vec(), "not a gzipped tar"),
            (Vec::new(), "unexpected end of file"),
            (packed(b"text"), "not a gzipped tar"),
            (
                one("Chart.yaml", WEB.as_bytes()),
                "no folder with a `Chart.yaml`",
            ),
            (
                one("web/values.yaml", b"a: 1"),
                "no folder with a `Chart.yaml`",
            ),
            (
                one("web/Chart.yaml", b"apiVersion: v2\nversion: 1.0.0\n"),
                "has no `name`",
            ),
            (one("web/Chart.yaml", b"a: [1\n"), "cannot be read"),
            (one("web/Chart.yaml", b"\xff"), "cannot be read"),
            (packed(&bent), "not a number"),
            (packed(&short), "truncated"),
        ] {
            let error = read_default(&bytes).unwrap_err().to_string();
            assert!(error.contains(reason), "`{error}` lacks `{reason}`");
        }
    }

    #[test]
    fn a_bomb_is_not_fully_unpacked() {
        let mut header = with_size(tar(&[("web/large", b"")]), b"77777777777");
        header.truncate(BLOCK);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&header).unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..(MAX_UNPACKED >> 20) + 8 {
            gzip.write_all(&zeros).unwrap();
        }
        let error = read_default(&gzip.finish().unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains("no folder"), "{error}");
    }

    #[test]
    fn only_a_regular_file_is_the_metadata() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        builder
            .append_link(&mut link, "web/Chart.yaml", "/etc/passwd")
            .unwrap();
        let error = read_default(&packed(&builder.into_inner().unwrap())).unwrap_err();
        assert!(error.to_string().contains("no folder"), "{error}");
    }

    #[test]
    fn a_folder_is_packed_as_helm_packs_it_and_is_bounded() {
        let file = |path: &str, bytes: Vec<u8>| Ok((path.to_owned(), bytes));
        let long = format!("templates/{}.yaml", "x".repeat(150));
        let files = || {
            [
                file("Chart.yaml", WEB.as_bytes().to_vec()),
                file(&long, b"a: 1".to_vec()),
            ]
        };
        let packed = pack("folder", files().into_iter()).unwrap();
        assert_eq!(packed, pack("folder", files().into_iter()).unwrap());
        assert_eq!(read_default(&packed).unwrap().name, "web");
        let mut tar = tar::Archive::new(GzDecoder::new(&*packed));
        let entries = tar.entries().unwrap().map(Result::unwrap);
        let paths: Vec<_> = entries
            .map(|entry| entry.path().unwrap().into_owned())
            .collect();
        let expected = ["folder/Chart.yaml".to_owned(), format!("folder/{long}")];
        assert_eq!(paths, expected.map(std::path::PathBuf::from));
        let half = vec![0; usize::try_from(MAX_UNPACKED / 2).unwrap() + 1];
        let large = [file("a", half.clone()), file("b", half)];
        let error = pack("folder", large.into_iter()).unwrap_err().to_string();
        assert!(error.contains("has more than"), "{error}");
    }

    #[test]
    fn a_long_name_before_the_metadata_is_skipped() {
        let long = format!("web/templates/{}", "x".repeat(200));
        let files = [
            (long.as_str(), &b"a: 1"[..]),
            ("web/Chart.yaml", WEB.as_bytes()),
        ];
        assert_eq!(read_default(&packed(&tar(&files))).unwrap().name, "web");
    }
}
