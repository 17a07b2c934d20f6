//! Malicious signatures: absurd lengths, endless nesting, and changes of every byte.

use crate::pki::{Pki, now};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};
use vnfm_signature::{Certificate, Fault, Signature, Trust};

fn signature(pki: &Pki) -> Vec<u8> {
    pki.write("content", b"content");
    pki.openssl("cms -sign -binary -in content -signer vendor.pem -inkey vendor.key -md sha256 -outform DER -out signature")
        .unwrap();
    pki.bytes("signature")
}

/// The processor time of this thread; independent of the machine's load.
fn computed() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

#[track_caller]
fn refused(bytes: &[u8]) -> Fault {
    let before = computed();
    let fault = Signature::read(bytes).unwrap_err();
    assert!(
        computed() < before + Duration::from_secs(1),
        "it computes too long"
    );
    fault
}

#[test]
fn absurd_lengths_are_refused_at_once() {
    let complete = signature(&Pki::chain("P-256"));
    // A length of four bytes that says two gigabytes, at every place where a length could stand.
    for at in 1..complete.len().min(400) {
        let mut absurd = complete.clone();
        absurd.splice(at..=at, [0x84, 0x7f, 0xff, 0xff, 0xff]);
        if let Ok(read) = Signature::read(&absurd) {
            assert!(read.verify(b"content", &[]).is_err(), "at {at}");
        }
    }
    for length in [
        &[0x84, 0xff, 0xff, 0xff, 0xff][..],
        &[0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0xff],
    ] {
        assert!(matches!(
            refused(&[&[0x30], length, &[0; 8]].concat()),
            Fault::NotCms(_)
        ));
    }
}

#[test]
fn endless_nesting_is_refused_at_once() {
    let deep = [0x30, 0x80].repeat(100_000);
    assert!(matches!(refused(&deep), Fault::NotCms(_)));
    let deep = [0x24, 0x80].repeat(100_000);
    assert!(matches!(refused(&deep), Fault::NotCms(_)));
    let begins_well = [
        &[0x30, 0x80, 0x06, 0x09][..],
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02],
        &[0xa0, 0x80].repeat(100_000),
    ];
    assert!(matches!(refused(&begins_well.concat()), Fault::NotCms(_)));
}

#[test]
fn an_oversized_signature_is_not_parsed() {
    assert!(matches!(
        refused(&vec![0x30; 300 << 10]),
        Fault::TooLarge(_)
    ));
    assert!(Certificate::read(&vec![0x30; 2 << 20]).is_err());
}

#[test]
fn a_truncated_signature_is_refused() {
    let complete = signature(&Pki::chain("P-256"));
    for end in 0..complete.len() {
        assert!(
            Signature::read(&complete[..end]).is_err(),
            "the first {end} bytes"
        );
    }
}

#[test]
fn no_changed_byte_causes_a_panic_and_no_signed_byte_may_change() {
    let pki = Pki::chain("P-256");
    let complete = signature(&pki);
    let trust = Trust::new(&pki.bytes("middle.pem"), None).unwrap();
    let own = pki.certificates(&["vendor"]).remove(0);
    for at in 0..complete.len() {
        for bit in [0x01, 0x80, 0xff] {
            let mut changed = complete.clone();
            changed[at] ^= bit;
            let Ok(read) = Signature::read(&changed) else {
                continue;
            };
            assert!(read.verify(b"other content", &[]).is_err(), "byte {at}");
            // Unsigned parts, such as the list of hashes, may change. The certificate is signed by its authority.
            if let Ok(signers) = read.verify(b"content", &[]) {
                let trusted = trust.check(&signers[0], now()).is_ok();
                assert_eq!(trusted, signers[0].certificate == own, "byte {at}");
            }
        }
    }
}

/// The fuzz target: parses a CMS, then verifies content with it.
fn cms(bytes: &[u8]) {
    if let Ok(read) = Signature::read(bytes) {
        let _ = read.verify(b"content", &[]);
    }
}

/// Reproducible random numbers (xorshift64*) below `bound`.
fn dice(state: &mut u64, bound: usize) -> usize {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    usize::try_from(state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % bound.max(1)
}

/// `VNFM_FUZZ_SECONDS=600 VNFM_FUZZ_SEED=7` sets duration and seed.
#[test]
fn a_nearly_valid_signature_is_parsed_or_refused() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let corpus = ["rsa", "P-384"].map(|kind| signature(&Pki::chain(kind)));
    let mut state = number("VNFM_FUZZ_SEED")
        .unwrap_or(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        | 1;
    let until =
        number("VNFM_FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut round = 0;
    while until.map_or(round < 5_000, |until| Instant::now() < until) {
        let mut bytes = corpus[dice(&mut state, corpus.len())].clone();
        for _ in 0..=dice(&mut state, 3) {
            let from = dice(&mut state, bytes.len());
            let to = (from + dice(&mut state, 20)).min(bytes.len());
            match dice(&mut state, 4) {
                0 => bytes
                    .iter_mut()
                    .skip(from)
                    .take(1)
                    .for_each(|byte| *byte ^= 1 << (round % 8)),
                1 => drop(bytes.drain(from..to)),
                2 => drop(bytes.splice(from..from, bytes[from..to].to_vec())),
                _ => drop(bytes.splice(
                    from..to,
                    [0x30, 0x80, 0x84, 0xff][dice(&mut state, 4)..].to_vec(),
                )),
            }
        }
        let before = computed();
        cms(&bytes);
        assert!(
            computed() < before + Duration::from_secs(1),
            "round {round}: {bytes:02x?}"
        );
        round += 1;
    }
}
