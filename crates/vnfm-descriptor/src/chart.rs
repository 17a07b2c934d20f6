//! Packaged Helm charts: a gzipped tar of one folder that contains `Chart.yaml` (Helm's "chart file structure").
//! Only the metadata is read; nothing is rendered.

use crate::finding::Sink;
use crate::limits::Limits;
use crate::yaml::{Node, parse};
use flate2::read::GzDecoder;
use serde::Serialize;
use std::io::{self, ErrorKind, Read};

/// The metadata of a Helm chart, from its `Chart.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Chart {
    /// `v1` or `v2`.
    pub api_version: String,
    /// `name`.
    pub name: String,
    /// `version`.
    pub version: String,
    /// `appVersion`: the version of the application.
    pub app_version: Option<String>,
    /// `description`.
    pub description: Option<String>,
    /// Whether it is a library chart, which deploys nothing itself.
    pub library: bool,
    /// The names of the charts that it depends on.
    pub dependencies: Vec<String>,
}

/// Bytes of a chart that are unpacked at most.
const MAX_UNPACKED: u64 = 64 << 20;
/// Size in bytes of a tar header, and of the blocks that contents are padded to.
const BLOCK: usize = 512;
const CHART_FILE: &str = "Chart.yaml";

/// Reads a packaged chart; the error says why it is not a Helm chart.
pub(crate) fn read(packed: &[u8], limits: &Limits) -> Result<Chart, String> {
    let text = chart_yaml(packed, limits)?;
    let mut sink = Sink::default();
    let Some(node) = parse(&text, CHART_FILE, limits, &mut sink) else {
        let findings = sink.all();
        let cause = findings
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        return Err(format!("its `{CHART_FILE}` cannot be read: {cause}"));
    };
    let text = |key: &str| node.get(key).and_then(Node::as_str).map(str::to_owned);
    let required =
        |key: &str| text(key).ok_or_else(|| format!("its `{CHART_FILE}` has no `{key}`"));
    let dependencies = node
        .get("dependencies")
        .map(Node::items)
        .unwrap_or_default();
    let name = |dependency: &Node| {
        dependency
            .get("name")
            .and_then(Node::as_str)
            .map(str::to_owned)
    };
    Ok(Chart {
        api_version: required("apiVersion")?,
        name: required("name")?,
        version: required("version")?,
        app_version: text("appVersion"),
        description: text("description"),
        library: text("type").as_deref() == Some("library"),
        dependencies: dependencies.iter().filter_map(name).collect(),
    })
}

/// Finds `Chart.yaml` in a gzipped tar and returns its text.
fn chart_yaml(packed: &[u8], limits: &Limits) -> Result<String, String> {
    let mut tar = GzDecoder::new(packed).take(MAX_UNPACKED);
    let mut header = [0_u8; BLOCK];
    loop {
        match tar.read_exact(&mut header) {
            Ok(()) if header[0] != 0 => {}
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => {
                return Err(format!("it is not a gzipped tar: {error}"));
            }
            _ => return Err(format!("it has no folder with a `{CHART_FILE}`")),
        }
        let size =
            octal(&header[124..136]).ok_or("it is not a tar: a size in it is not a number")?;
        if is_chart_yaml(&header) {
            let max = limits.yaml_bytes as u64;
            if size > max {
                return Err(format!("its `{CHART_FILE}` has more than {max} bytes"));
            }
            let mut text = String::new();
            let read = tar.by_ref().take(size).read_to_string(&mut text);
            return match read {
                Ok(_) if text.len() as u64 == size => Ok(text),
                Ok(_) => Err("it is truncated".to_owned()),
                Err(error) => Err(format!("its `{CHART_FILE}` cannot be read: {error}")),
            };
        }
        let padded = size.div_ceil(BLOCK as u64).saturating_mul(BLOCK as u64);
        let skipped = io::copy(&mut tar.by_ref().take(padded), &mut io::sink());
        skipped.map_err(|error| format!("it is not a gzipped tar: {error}"))?;
    }
}

/// Whether a header belongs to the regular file `<folder>/Chart.yaml`.
fn is_chart_yaml(header: &[u8; BLOCK]) -> bool {
    let name = header[..100]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    let name = name.strip_prefix(b"./").unwrap_or(name);
    let regular = matches!(header[156], 0 | b'0');
    let parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
    regular
        && matches!(parts[..], [folder, file] if !folder.is_empty() && file == CHART_FILE.as_bytes())
}

/// Reads a number in tar's format: octal digits, padded with blanks or NULs.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if text.is_empty() {
        Some(0)
    } else {
        u64::from_str_radix(text, 8).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    /// A tar archive of these files.
    fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, content) in files {
            let mut header = [0_u8; BLOCK];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
            header[156] = b'0';
            bytes.extend(header);
            bytes.extend(*content);
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        bytes.extend([0; 2 * BLOCK]);
        bytes
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    fn read_default(bytes: &[u8]) -> Result<Chart, String> {
        read(bytes, &Limits::default())
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
    fn other_files_are_refused_with_the_reason() {
        let one = |name: &str, text: &[u8]| packed(&tar(&[(name, text)]));
        let mut bent = tar(&[("web/Chart.yaml", WEB.as_bytes())]);
        bent[124..135].copy_from_slice(b"not a size!");
        let mut short = tar(&[("web/Chart.yaml", WEB.as_bytes())]);
        short.truncate(BLOCK + 10);
        for (bytes, reason) in [
            (b"apiVersion: v2, name: web".to_vec(), "not a gzipped tar"),
            (Vec::new(), "`Chart.yaml`"),
            (packed(b"text"), "no folder with a `Chart.yaml`"),
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
            (packed(&bent), "a size in it is not a number"),
            (packed(&short), "truncated"),
        ] {
            let error = read_default(&bytes).unwrap_err();
            assert!(error.contains(reason), "`{error}` lacks `{reason}`");
        }
    }

    #[test]
    fn a_bomb_is_not_fully_unpacked() {
        let mut header = tar(&[("web/large", b"")]);
        header.truncate(BLOCK);
        header[124..135].copy_from_slice(b"77777777777");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&header).unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..(MAX_UNPACKED >> 20) + 8 {
            gzip.write_all(&zeros).unwrap();
        }
        let error = read_default(&gzip.finish().unwrap()).unwrap_err();
        assert!(error.contains("no folder"), "{error}");
    }
}
