//! Helm charts as they are packed: a gzipped tar of one folder with `Chart.yaml` in it (Helm's "chart file
//! structure"). They are read for what they say of themselves; nothing is rendered here.

use crate::finding::Sink;
use crate::limits::Limits;
use crate::yaml::{Node, parse};
use flate2::read::GzDecoder;
use serde::Serialize;
use std::io::{self, ErrorKind, Read};

/// What a Helm chart says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Chart {
    /// `v1` or `v2`.
    pub api_version: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of what it deploys.
    pub app_version: Option<String>,
    /// A sentence about it.
    pub description: Option<String>,
    /// Whether it is only for other charts: a library deploys nothing.
    pub library: bool,
    /// The names of the charts that it needs.
    pub dependencies: Vec<String>,
}

/// What is unpacked of a chart at most; charts with more than text in them are no charts.
const UNPACKED: u64 = 64 << 20;
/// A tar is made of blocks.
const BLOCK: usize = 512;
const FILE: &str = "Chart.yaml";

/// Reads a packed chart; says why it is none.
pub(crate) fn read(packed: &[u8], limits: &Limits) -> Result<Chart, String> {
    let text = chart_yaml(packed, limits)?;
    let mut sink = Sink::default();
    let Some(node) = parse(&text, FILE, limits, &mut sink) else {
        let findings = sink.all();
        let why = findings
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        return Err(format!("its `{FILE}` cannot be read: {why}"));
    };
    let text = |key: &str| node.get(key).and_then(Node::as_str).map(str::to_owned);
    let needed = |key: &str| text(key).ok_or_else(|| format!("its `{FILE}` has no `{key}`"));
    let dependencies = node
        .get("dependencies")
        .map(Node::items)
        .unwrap_or_default();
    let name = |one: &Node| one.get("name").and_then(Node::as_str).map(str::to_owned);
    Ok(Chart {
        api_version: needed("apiVersion")?,
        name: needed("name")?,
        version: needed("version")?,
        app_version: text("appVersion"),
        description: text("description"),
        library: text("type").as_deref() == Some("library"),
        dependencies: dependencies.iter().filter_map(name).collect(),
    })
}

/// The text of the file that describes a chart.
fn chart_yaml(packed: &[u8], limits: &Limits) -> Result<String, String> {
    let mut tar = GzDecoder::new(packed).take(UNPACKED);
    let mut header = [0_u8; BLOCK];
    loop {
        match tar.read_exact(&mut header) {
            Ok(()) if header[0] != 0 => {}
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => {
                return Err(format!("it is no gzipped tar: {error}"));
            }
            _ => return Err(format!("it has no folder with a `{FILE}`")),
        }
        let size = octal(&header[124..136]).ok_or("it is no tar: a size in it is no number")?;
        if is_chart_yaml(&header) {
            let most = limits.yaml_bytes as u64;
            if size > most {
                return Err(format!("its `{FILE}` has more than {most} bytes"));
            }
            let mut text = String::new();
            let read = tar.by_ref().take(size).read_to_string(&mut text);
            return match read {
                Ok(_) if text.len() as u64 == size => Ok(text),
                Ok(_) => Err("it ends too early".to_owned()),
                Err(error) => Err(format!("its `{FILE}` cannot be read: {error}")),
            };
        }
        let padded = size.div_ceil(BLOCK as u64).saturating_mul(BLOCK as u64);
        let skipped = io::copy(&mut tar.by_ref().take(padded), &mut io::sink());
        skipped.map_err(|error| format!("it is no gzipped tar: {error}"))?;
    }
}

/// Whether a header is that of `<folder>/Chart.yaml`, a file.
fn is_chart_yaml(header: &[u8; BLOCK]) -> bool {
    let name = header[..100]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    let name = name.strip_prefix(b"./").unwrap_or(name);
    let regular = matches!(header[156], 0 | b'0');
    let parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
    regular && matches!(parts[..], [folder, file] if !folder.is_empty() && file == FILE.as_bytes())
}

/// A number as tar writes it: octal digits, with blanks or zeros around.
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

    /// A tar of these files, as `tar` writes it.
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

    fn of(bytes: &[u8]) -> Result<Chart, String> {
        read(bytes, &Limits::default())
    }

    const WEB: &str = "apiVersion: v2\nname: web\nversion: 1.10.0\nappVersion: \"1\"\ndependencies:\n  - {name: redis, version: 1.0.0}\n";

    #[test]
    fn a_chart_says_what_it_is() {
        let long = vec![b'x'; 3 * BLOCK + 1];
        let files = [
            ("web/charts/redis/Chart.yaml", &b"name: redis"[..]),
            ("web/values.yaml", &long),
            ("web/Chart.yaml", WEB.as_bytes()),
        ];
        let chart = of(&packed(&tar(&files))).unwrap();
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
    fn what_is_no_chart_is_told_why() {
        let one = |name: &str, text: &[u8]| packed(&tar(&[(name, text)]));
        let mut bent = tar(&[("web/Chart.yaml", WEB.as_bytes())]);
        bent[124..135].copy_from_slice(b"not a size!");
        let mut short = tar(&[("web/Chart.yaml", WEB.as_bytes())]);
        short.truncate(BLOCK + 10);
        for (bytes, why) in [
            (b"apiVersion: v2, name: web".to_vec(), "no gzipped tar"),
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
            (packed(&bent), "a size in it is no number"),
            (packed(&short), "ends too early"),
        ] {
            let said = of(&bytes).unwrap_err();
            assert!(said.contains(why), "`{said}` lacks `{why}`");
        }
    }

    #[test]
    fn a_bomb_is_not_unpacked_to_its_end() {
        let mut header = tar(&[("web/large", b"")]);
        header.truncate(BLOCK);
        header[124..135].copy_from_slice(b"77777777777");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&header).unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..(UNPACKED >> 20) + 8 {
            gzip.write_all(&zeros).unwrap();
        }
        let said = of(&gzip.finish().unwrap()).unwrap_err();
        assert!(said.contains("no folder"), "{said}");
    }
}
