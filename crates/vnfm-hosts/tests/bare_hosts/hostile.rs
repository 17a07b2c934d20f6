//! Hosts that flood, hang, lie, or are others than before: none of them is leased, and none stops the others.

use crate::sshd::Sshd;
use crate::support::{Site, owner, sample};
use jiff::SignedDuration;
use serde_json::json;
use std::time::{Duration, Instant};
use vnfm_core::ports::ErrorKind;

/// Three hosts of which the first is hostile, and their inventory.
fn site(program: &str, script: &str) -> Option<(Vec<Sshd>, Site)> {
    let first = Sshd::start()?;
    let hosts = vec![first, Sshd::start()?, Sshd::start()?];
    hosts[0].install(program, script);
    let mut site = Site::new(Sshd::inventory(&hosts));
    site.timeout = SignedDuration::from_secs(60);
    Some((hosts, site))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_prints_nonsense_is_not_leased() {
    for (program, script) in [
        ("nproc", "head -c 3000000 /dev/zero | tr '\\0' 'x'"),
        ("uname", "printf 'x86\\033[31m'"),
        ("nproc", "echo -5"),
        ("nproc", "printf '4\\nlease {}'"),
        ("nproc", "echo broken >&2; exit 1"),
    ] {
        let Some((hosts, site)) = site(program, script) else {
            return;
        };
        let owner = owner();
        let record = site.create(&owner, &sample()).await.unwrap();
        assert!(hosts[0].lease().is_none(), "{script}");
        site.release(&owner, record.handle).await.unwrap();
        // With a second one there are not enough: the reason is named, and no control character of the host.
        hosts[1].install(program, script);
        let error = site.preview(&owner, &sample()).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.name(), "hosts.none-free", "{text}");
        assert!(
            text.contains(&hosts[0].name) && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(text.len() < 3_000, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_never_answers_delays_a_call_and_does_not_stop_it() {
    let Some((hosts, mut site)) = site("nproc", "exec sleep 90") else {
        return;
    };
    let owner = owner();
    let begun = Instant::now();
    let error = {
        site.timeout = SignedDuration::from_secs(2);
        site.create(&owner, &sample()).await.unwrap_err()
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    site.timeout = SignedDuration::from_mins(2);
    let record = site.create(&owner, &sample()).await.unwrap();
    assert!(hosts[0].lease().is_none());
    site.release(&owner, record.handle).await.unwrap();
    assert!(hosts.iter().all(|host| host.lease().is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_another_key_gets_no_login() {
    let Some((hosts, site)) = site("true", "true") else {
        return;
    };
    let owner = owner();
    let record = site.create(&owner, &sample()).await.unwrap();
    let leased: Vec<_> = hosts.iter().filter(|host| host.lease().is_some()).collect();
    // The connections are closed with the hosts' processes; the next login meets the other key.
    leased[0].reinstall();
    leased[0].disconnect();
    let error = site
        .release(&owner, record.handle.clone())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Refused, "ssh.host-key-changed"),
        "{error}"
    );
    assert!(leased[0].lease().is_some(), "nothing was run on it");
    let renewed = Sshd::inventory(&hosts);
    *site.info.lock().unwrap() = renewed;
    site.release(&owner, record.handle).await.unwrap();
    assert!(hosts.iter().all(|host| host.lease().is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_cannot_be_read_belongs_to_somebody_else() {
    let Some((hosts, site)) = site("true", "true") else {
        return;
    };
    for host in &hosts[..2] {
        host.write_lease("{\"from\": \"a newer version\"}\n");
    }
    let error = site.preview(&owner(), &sample()).await.unwrap_err();
    assert_eq!(error.name(), "hosts.none-free");
    site.release(&owner(), json!(null)).await.unwrap();
    assert!(hosts[0].lease().unwrap().contains("newer"));
}
