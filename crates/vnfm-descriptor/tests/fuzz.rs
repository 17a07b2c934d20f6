//! Mutated packages: no change of a byte, line or token makes a reader panic or take long.
//!
//! The corpus is `vnfd-samples/broken`, whose packages already have one mistake each. A run is short and
//! deterministic; `VNFM_FUZZ_SECONDS=600 VNFM_FUZZ_SEED=7` sets the duration and the seed.
//! `fuzz/README.md` describes the libFuzzer targets.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../fuzz/targets.rs"]
mod targets;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use targets::{archive, chart, manifest, vnfd};
use vnfm_descriptor::{Limits, pack};

/// Maximum CPU time of a target.
const MAX_CPU_TIME: Duration = Duration::from_secs(5);

/// The files of the broken packages whose names have this ending; the packed packages if it is empty.
fn corpus(ending: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples/broken");
    let mut folders: Vec<_> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    folders.retain(|folder| folder.is_dir());
    if ending.is_empty() {
        let packed = folders
            .iter()
            .map(|folder| pack(folder, &Limits::default()).unwrap());
        return packed.collect();
    }
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut paths: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Tokens that are hard for parsers.
const TOKENS: &[&[u8]] = &[
    b"&a [*a, *a]",
    b"*a",
    b"<<: *a",
    b"- ",
    b"{",
    b"}",
    b"[",
    b"\t",
    b": ",
    b"? ",
    b"---\n",
    b"...\n",
    b"!!binary x",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\0",
    b"|2\n",
    b"'",
    b"\"",
    b"#",
    b"%TAG ! x\n",
    b"99999999999999999999",
    b"-1",
    b".inf",
    b"1e999",
    b"0x",
    b"9223372036854775808 GiB",
    b"{get_input: [a, b]}",
    b"{get_property: [SELF, a]}",
    b"{concat: []}",
    b"{token: [a, '', 1]}",
    b"derived_from: tosca.nodes.Root",
    b"../..",
    b"://",
    b"\r\n",
    b"Source:",
    b"Hash:",
    b"-----BEGIN CMS-----",
    b"PK\x01\x02",
    b"PK\x05\x06",
    b"PK\x06\x06",
    b"\xff\xff\xff\xff",
];

/// A deterministic random number generator (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(value).unwrap() % bound.max(1)
    }
}

fn mutated(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = corpus[dice.below(corpus.len())].clone();
    for _ in 0..=dice.below(4) {
        let from = dice.below(bytes.len());
        let to = (from + dice.below(40)).min(bytes.len());
        match dice.below(6) {
            0 => bytes
                .iter_mut()
                .skip(from)
                .take(1)
                .for_each(|byte| *byte ^= 1 << dice.below(8)),
            1 => drop(bytes.drain(from..to)),
            2 => {
                let piece = bytes[from..to].repeat(1 + dice.below(8));
                drop(bytes.splice(from..from, piece));
            }
            3 => {
                let token = TOKENS[dice.below(TOKENS.len())];
                drop(bytes.splice(from..to, token.iter().copied()));
            }
            4 => {
                let other = &corpus[dice.below(corpus.len())];
                let at = dice.below(other.len());
                let piece = other[at..(at + dice.below(200)).min(other.len())].to_vec();
                drop(bytes.splice(from..to, piece));
            }
            _ => bytes.truncate(to),
        }
    }
    bytes
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

/// Runs a target on the corpus, then on mutations of it.
fn run(target: fn(&[u8]), corpus: &[Vec<u8>], rounds: usize) {
    assert!(!corpus.is_empty());
    for bytes in corpus {
        target(bytes);
    }
    let mut dice = Dice(
        number("VNFM_FUZZ_SEED")
            .unwrap_or(1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            | 1,
    );
    let until =
        number("VNFM_FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut round = 0;
    while until.map_or(round < rounds, |until| Instant::now() < until) {
        let bytes = mutated(corpus, &mut dice);
        let before = cpu_time();
        let outcome = std::panic::catch_unwind(|| target(&bytes));
        let took = cpu_time().saturating_sub(before);
        if outcome.is_err() || took > MAX_CPU_TIME {
            let saved = std::env::temp_dir().join(format!("vnfm-fuzz-{round}"));
            fs::write(&saved, &bytes).unwrap();
            panic!(
                "round {round} took {took:?}, panicked: {}; input saved as `{}`",
                outcome.is_err(),
                saved.display()
            );
        }
        round += 1;
    }
    println!("{round} rounds");
}

#[test]
fn mutated_descriptors_are_read_or_refused() {
    run(vnfd, &corpus("vnfd.yaml"), 150);
}

#[test]
fn mutated_manifests_are_read_or_refused() {
    run(manifest, &corpus(".mf"), 1_000);
}

#[test]
fn mutated_charts_are_read_or_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vnfd-samples/cnf-chart/Artifacts/Charts/web-1.0.0.tgz");
    run(chart, &[fs::read(path).unwrap()], 300);
}

#[test]
fn mutated_archives_are_read_or_refused() {
    run(archive, &corpus(""), 300);
}

/// libFuzzer found a timeout: schemas were copied again at each level above them. The reference is a small
/// descriptor, read on the same machine.
#[test]
fn types_that_multiply_are_refused_quickly() {
    let cost = |name: &str, times: usize| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples/broken");
        let bytes = pack(&root.join(name), &Limits::default()).unwrap();
        let before = cpu_time();
        (0..times).for_each(|_| archive(&bytes));
        cpu_time().saturating_sub(before)
    };
    let (usual, bomb) = (
        cost("unused-link", 2 * MAX_COST),
        cost("exploding-types", 2),
    );
    assert!(
        bomb < usual,
        "{bomb:?}, more than {usual:?} for {MAX_COST} times as many ordinary descriptors"
    );
}

/// Maximum cost of the largest descriptor, as a multiple of the cost of an ordinary one.
const MAX_COST: usize = 240;
