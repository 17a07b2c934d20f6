//! Descriptors and packages: cold loads, and the cost of large packages.
//!
//! A cold load runs in a separate process ([`load`]): it includes reading the built-in types, and the peak memory is that of
//! this load alone. A large package is opened as in onboarding after the upload (the hash of the archive was computed during
//! the upload), in turn with `sha256sum` of the same file. `sha256sum` reads the compressed archive, while onboarding hashes
//! the unpacked content. So the deflated image has incompressible content, as delivered images do; the result for an image
//! that doubles in size has no target.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use vnfm::descriptor::{Limits, Package, pack};
use vnfm_core::ports::Packages as _;
use vnfm_store::PackageDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::figure::{Figure, median};
use crate::world::runtime;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vnfd-samples");
/// Number of loads of each package.
const LOADS: usize = 9;
/// Packages that a command lints after its first one.
const MORE_LINTS: usize = 32;
/// Number of alternating runs of onboarding and `sha256sum`.
const TURNS: usize = 3;
const VDUS: usize = 500;
const LEVELS: usize = 100;
const GIB: u64 = 1 << 30;
/// Size of the package for the comparison of memory.
const SMALL: u64 = 16 << 20;
const LOOKS: u32 = 10_000;

/// Runs the benchmarks that onboard packages.
///
/// # Errors
/// If a package cannot be created or is refused.
pub fn figures(programs: &Path) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let mut figures = samples(programs, &folder)?;
    figures.extend(wide(&folder)?);
    figures.push(cached(&folder)?);
    let (stored, deflated) = (CompressionMethod::Stored, CompressionMethod::Deflated);
    figures.extend(large(&folder, (stored, Content::Noise), Some(100.0))?);
    figures.extend(large(&folder, (deflated, Content::Noise), Some(60.0))?);
    figures.extend(large(&folder, (deflated, Content::Half), None)?);
    Ok(figures)
}

/// What an image consists of.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// Bytes that cannot be compressed.
    Noise,
    /// Alternately bytes that cannot be compressed and bytes that can.
    Half,
    /// Only zeros, which compress best.
    Zeros,
}

impl Content {
    fn description(self) -> &'static str {
        match self {
            Content::Noise => "of what is compressed in itself",
            Content::Half => "half of text",
            Content::Zeros => "of zeros",
        }
    }
}

/// Size and content of an image.
#[derive(Clone, Copy)]
pub(crate) struct Image {
    pub(crate) size: u64,
    pub(crate) method: CompressionMethod,
    pub(crate) content: Content,
}

/// Result of loading the server with requests.
#[derive(Debug, Serialize, Deserialize)]
pub struct Load {
    /// Duration of the load in seconds.
    pub seconds: f64,
    /// Peak resident memory of its process, in MiB.
    pub peak_mib: f64,
}

/// Opens a package as the first action of the process, for `vnfm-benches --load FILE`. With `hashed`, the hash of
/// the archive is already known.
///
/// # Errors
/// If the package is refused.
pub fn load(file: &Path, hashed: bool) -> Result<Load> {
    let began = Instant::now();
    // The widest level of the descriptor of many VDUs needs 100 001.
    let mut limits = Limits::default();
    limits.resources = 200_000;
    let package = if hashed {
        Package::open_hashed(file, String::new(), &limits)?
    } else {
        Package::open(file, &limits)?
    };
    let seconds = began.elapsed().as_secs_f64();
    ensure!(
        !package.vnfd().descriptor_id.is_empty(),
        "the package has no descriptor_id"
    );
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|value| value.split_whitespace().next()?.parse::<u32>().ok());
    Ok(Load {
        seconds,
        peak_mib: f64::from(kib.context("`status` contains no memory size")?) / 1024.0,
    })
}

/// The same in a separate process.
pub(crate) fn cold(file: &Path, hashed: bool) -> Result<Load> {
    let output = Command::new(std::env::current_exe()?)
        .arg("--programs")
        .arg(file.parent().unwrap_or(file))
        .arg("--load")
        .arg(file)
        .args(hashed.then_some("--hashed"))
        .output()
        .context("cannot start the process that loads the package")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "cannot load `{}`: {stderr}",
        file.display()
    );
    serde_json::from_slice(&output.stdout).context("the load printed no result")
}

fn milliseconds(file: &Path) -> Result<f64> {
    let loads = (0..LOADS)
        .map(|_| Ok(cold(file, false)?.seconds * 1000.0))
        .collect::<Result<Vec<_>>>()?;
    median(loads)
}

/// The sample with the largest archive.
fn samples(programs: &Path, folder: &TempDir) -> Result<Vec<Figure>> {
    let mut largest: Option<(String, Vec<u8>)> = None;
    for entry in std::fs::read_dir(SAMPLES)? {
        let path = entry?.path();
        if !path.join("TOSCA-Metadata").is_dir() || path.ends_with("broken") {
            continue;
        }
        let bytes = pack(&path, &Limits::default())?;
        if largest
            .as_ref()
            .is_none_or(|(_, known)| known.len() < bytes.len())
        {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            largest = Some((name, bytes));
        }
    }
    let (name, bytes) = largest.context("no sample found")?;
    let file = folder.path().join("sample.csar");
    std::fs::write(&file, bytes)?;
    let cold = format!("cold load of the largest sample, {name}");
    let lint = format!("vnfmctl lint of the largest sample, {name}");
    let lints = |count: usize| {
        let all = (0..LOADS).map(|_| lint_milliseconds(programs, &file, count));
        median(all.collect::<Result<_>>()?)
    };
    let first = lints(1)?;
    let each = (lints(1 + MORE_LINTS)? - first) / f64::from(u32::try_from(MORE_LINTS)?);
    Ok(vec![
        Figure::at_most(30.0, cold, milliseconds(&file)?, "ms"),
        Figure::untargeted(lint.clone(), first, "ms"),
        Figure::at_most(10.0, format!("{lint}: each more"), each, "ms"),
    ])
}

/// Duration of the command for a package given `count` times, with the start of its process.
fn lint_milliseconds(programs: &Path, file: &Path, count: usize) -> Result<f64> {
    let began = Instant::now();
    let output = Command::new(programs.join("vnfmctl"))
        .arg("lint")
        .args(vec![file; count])
        .output()
        .context("cannot start vnfmctl")?;
    let elapsed = began.elapsed().as_secs_f64() * 1000.0;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "vnfmctl lint failed: {stderr}");
    Ok(elapsed)
}

/// A descriptor of many VDUs and levels.
fn wide(folder: &TempDir) -> Result<Vec<Figure>> {
    let file = folder.path().join("wide.csar");
    write(
        BufWriter::new(File::create(&file)?),
        &vnfd(VDUS, LEVELS),
        None,
    )?;
    let name = format!("cold load of {VDUS} VDUs × {LEVELS} levels");
    let peak = cold(&file, false)?.peak_mib;
    Ok(vec![
        Figure::at_most(300.0, name.clone(), milliseconds(&file)?, "ms"),
        Figure::at_most(100.0, format!("{name}: memory"), peak, "MiB"),
    ])
}

/// Loads a package from the cache.
fn cached(folder: &TempDir) -> Result<Figure> {
    let runtime = runtime()?;
    let packages = PackageDir::open(&folder.path().join("packages"), Limits::default())?;
    let each = runtime.block_on(async {
        packages
            .store_copy("p", &Path::new(SAMPLES).join("vnf-levels"))
            .await?;
        let began = Instant::now();
        for _ in 0..LOOKS {
            packages.package("default", "p").await?;
        }
        anyhow::Ok(began.elapsed().as_secs_f64() * 1000.0 / f64::from(LOOKS))
    })?;
    Ok(Figure::at_most(0.1, "a package from the cache", each, "ms"))
}

/// Compares onboarding of a package with an image of 1 GiB with `sha256sum` of its file.
fn large(
    folder: &TempDir,
    (method, content): (CompressionMethod, Content),
    aim: Option<f64>,
) -> Result<Vec<Figure>> {
    let package_with_size = |size: u64| -> Result<PathBuf> {
        let file = folder.path().join(format!("{size}-{method}.csar"));
        let to = BufWriter::new(File::create(&file)?);
        write(
            to,
            &vnfd(2, 2),
            Some(Image {
                size,
                method,
                content,
            }),
        )?;
        Ok(file)
    };
    let (file, small) = (package_with_size(GIB)?, package_with_size(SMALL)?);
    let (mut ratios, mut ours, mut twice, mut peak) = (vec![], vec![], vec![], 0_f64);
    for _ in 0..TURNS {
        let by_sum = sha256sum(&file)?;
        let load = cold(&file, true)?;
        ratios.push(100.0 * by_sum / load.seconds);
        ours.push(load.seconds);
        peak = peak.max(load.peak_mib);
        twice.push(cold(&file, false)?.seconds);
    }
    let name = format!("onboarding of 1 GiB, {method}, {}", content.description());
    let more = (peak - cold(&small, true)?.peak_mib).max(0.0);
    for file in [file, small] {
        std::fs::remove_file(file)?;
    }
    let speed = format!("{name}: speed of sha256sum");
    let ratio = median(ratios)?;
    Ok(vec![
        Figure::untargeted(name.clone(), median(ours)?, "s"),
        Figure::untargeted(
            format!("{name}: with the archive's own hash"),
            median(twice)?,
            "s",
        ),
        match aim {
            Some(aim) => Figure::at_least(aim, speed, ratio, "%"),
            None => Figure::untargeted(speed, ratio, "%"),
        },
        Figure::at_most(
            8.0,
            format!("{name}: more memory than 16 MiB take"),
            more,
            "MiB",
        ),
    ])
}

/// Duration of `sha256sum` for a file, in seconds.
fn sha256sum(file: &Path) -> Result<f64> {
    let began = Instant::now();
    let output = Command::new("sha256sum")
        .arg(file)
        .output()
        .context("cannot start sha256sum")?;
    ensure!(output.status.success(), "sha256sum failed");
    Ok(began.elapsed().as_secs_f64())
}

/// Writes a package with this descriptor, and an image whose hash is in the manifest.
pub(crate) fn write(
    to: impl std::io::Write + std::io::Seek,
    vnfd: &str,
    image: Option<Image>,
) -> Result<()> {
    let mut zip = ZipWriter::new(to);
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    let mut manifest = "metadata:\nvnf_product_name: N\n".to_owned();
    let add = |zip: &mut ZipWriter<_>, name: &str, text: &str| -> Result<()> {
        zip.start_file(name, options)?;
        Ok(zip.write_all(text.as_bytes())?)
    };
    add(
        &mut zip,
        "TOSCA-Metadata/TOSCA.meta",
        "Entry-Definitions: Definitions/vnfd.yaml\nETSI-Entry-Manifest: vnfd.mf\n",
    )?;
    add(&mut zip, "Definitions/vnfd.yaml", vnfd)?;
    if let Some(image) = image {
        let zip64 = image.size >= u64::from(u32::MAX);
        let options = options.compression_method(image.method).large_file(zip64);
        zip.start_file("Files/images/disk.img", options)?;
        let hash = fill(&mut zip, image)?;
        writeln!(
            manifest,
            "\nSource: Files/images/disk.img\nAlgorithm: SHA-256\nHash: {hash}"
        )?;
    }
    add(&mut zip, "vnfd.mf", &manifest)?;
    zip.finish()?.flush()?;
    Ok(())
}

/// Writes the content of a disk image; returns its SHA-256.
fn fill(to: &mut impl std::io::Write, image: Image) -> Result<String> {
    use sha2::{Digest as _, Sha256};
    const PIECE: usize = 64 << 10;
    let (mut hash, mut state) = (Sha256::new(), 0x9e37_79b9_7f4a_7c15_u64);
    let text: Vec<u8> = (0..)
        .flat_map(|line: u32| format!("{line}: a line\n").into_bytes())
        .take(PIECE)
        .collect();
    let zeros = vec![0; PIECE];
    let mut noise = vec![0; PIECE];
    for piece in 0..image.size / PIECE as u64 {
        let bytes = match image.content {
            Content::Zeros => &zeros,
            Content::Half if piece % 2 == 1 => &text,
            Content::Noise | Content::Half => {
                for word in noise.chunks_exact_mut(8) {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    word.copy_from_slice(&state.to_le_bytes());
                }
                &noise
            }
        };
        hash.update(bytes);
        to.write_all(bytes)?;
    }
    Ok(hex::encode(hash.finalize()))
}

/// A descriptor with this number of VDUs, each with a connection point, and of levels.
pub fn vnfd(vdus: usize, levels: usize) -> String {
    let mut text = HEAD.to_owned();
    let mut policies = String::new();
    let all = (0..vdus).map(|vdu| format!("vdu{vdu}")).collect::<Vec<_>>();
    for vdu in &all {
        text += &VDU
            .replace("@VDU@", vdu)
            .replace("@MOST@", &levels.to_string());
        policies += &INITIAL.replace("@VDU@", vdu);
    }
    text += "  policies:\n    - aspects:\n        type: tosca.policies.nfv.ScalingAspects\n        properties:\n          aspects:\n";
    let most = levels - 1;
    let _ = writeln!(
        text,
        "            size: {{name: size, description: How large it is, max_scale_level: {most}, step_deltas: [one]}}"
    );
    let _ = writeln!(
        text,
        "    - steps:\n        type: tosca.policies.nfv.VduScalingAspectDeltas\n        properties: {{aspect: size, deltas: {{one: {{number_of_instances: 1}}}}}}\n        targets: [{}]",
        all.join(", ")
    );
    text += "    - levels:\n        type: tosca.policies.nfv.InstantiationLevels\n        properties:\n          default_level: level0\n          levels:\n";
    for level in 0..levels {
        let _ = writeln!(
            text,
            "            level{level}: {{description: Of size {level}, scale_info: {{size: {{scale_level: {level}}}}}}}"
        );
    }
    for vdu in &all {
        let _ = writeln!(
            policies,
            "    - {vdu}_levels:\n        type: tosca.policies.nfv.VduInstantiationLevels\n        targets: [{vdu}]\n        properties:\n          levels:"
        );
        for level in 0..levels {
            let _ = writeln!(
                policies,
                "            level{level}: {{number_of_instances: {}}}",
                level + 1
            );
        }
    }
    text + &policies
}

const HEAD: &str = "\
tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
node_types:
  benches.nodes.Wide:
    derived_from: tosca.nodes.nfv.VNF
    properties:
      descriptor_id: {type: string, default: 0d3f3d5e-52a5-4f0b-9a0e-6d5c1d3b7f11}
      descriptor_version: {type: string, default: '1.0'}
      provider: {type: string, default: vnfm}
      product_name: {type: string, default: N}
      software_version: {type: string, default: '1.0'}
      vnfm_info: {type: list, entry_schema: {type: string}, default: ['etsivnfm:v3.3.1']}
      flavour_id: {type: string, default: simple}
      flavour_description: {type: string, default: wide}
topology_template:
  substitution_mappings: {node_type: benches.nodes.Wide, properties: {flavour_id: simple}}
  node_templates:
    VNF: {type: benches.nodes.Wide, properties: {flavour_description: wide}}
    link:
      type: tosca.nodes.nfv.VnfVirtualLink
      properties:
        connectivity_type: {layer_protocols: [ipv4]}
        vl_profile: {max_bitrate_requirements: {root: 0}, min_bitrate_requirements: {root: 0}}
";

const VDU: &str = "
    @VDU@:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        name: @VDU@
        description: One of many
        vdu_profile: {min_number_of_instances: 1, max_number_of_instances: @MOST@}
        sw_image_data: {name: nfv-image, version: '1.0', container_format: bare, disk_format: qcow2, min_disk: 1 GiB}
      capabilities:
        virtual_compute:
          properties:
            virtual_cpu: {num_virtual_cpu: 1}
            virtual_memory: {virtual_mem_size: 512 MiB}
            virtual_local_storage: [{size_of_storage: 1 GiB}]
    @VDU@CP:
      type: tosca.nodes.nfv.VduCp
      properties: {layer_protocols: [ipv4], order: 0}
      requirements: [{virtual_binding: @VDU@}, {virtual_link: link}]
";

const INITIAL: &str = "
    - @VDU@_initial:
        type: tosca.policies.nfv.VduInitialDelta
        properties: {initial_delta: {number_of_instances: 1}}
        targets: [@VDU@]
";
