//! What a hook's calls leave behind: connections that are reused, host keys that belong to an instance.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use vnfm::memory::MemoryStore;
use vnfm::outbound::Destinations;
use vnfm::{Hosts, SystemClock};
use vnfm_core::ports::{
    HostPin, HostServices as _, HttpRequest, PinnedHost, PinnedTarget, SshTarget, Store as _,
};
use vnfm_sim::faults::Faults;
use vnfm_sim::hosts::{HostSpec, Hosts as SimulatedHosts, User};
use vnfm_sim::kubernetes::Clusters;
use vnfm_sim::ledger::Ledger;

fn hosts(store: &Arc<MemoryStore>) -> Hosts {
    Hosts::new(store.clone(), Destinations::anywhere())
}

/// Answers every request on a connection.
async fn answer(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        if stream.write_all(response).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn http_calls_of_hooks_to_one_host_share_a_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(answer(stream));
        }
    });
    let hosts = hosts(&Arc::new(MemoryStore::new(Arc::new(SystemClock))));
    let request = HttpRequest::new("GET", url);
    for _ in 0..3 {
        assert_eq!(hosts.http(&request).await.unwrap().body, "ok");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// The port of the simulated host that accepts the password `secret`.
async fn simulated_host() -> (SimulatedHosts, u16) {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let port = TcpListener::bind((address, 0))
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let (books, faults) = (Ledger::new(), Faults::new());
    let clusters = Arc::new(Clusters::new(books.clone(), faults.clone()));
    let simulated = SimulatedHosts::new(books, faults, clusters, port);
    let user = User {
        name: "ubuntu".into(),
        password: Some("secret".into()),
        authorized_keys: vec![],
    };
    let spec = HostSpec {
        server_id: "s".into(),
        name: "web-1".into(),
        address,
        users: vec![user],
    };
    simulated.boot(spec).await.unwrap();
    (simulated, port)
}

#[tokio::test]
async fn a_host_key_learned_at_the_first_login_belongs_to_the_instance() {
    let (_simulated, port) = simulated_host().await;
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let target = SshTarget::new("s", "127.0.0.1", "ubuntu").port(port);
    let mut target = PinnedTarget::from(target.password("secret"));
    target.pin = HostPin {
        at: PinnedHost {
            tenant: "default".into(),
            vim_id: "v".into(),
            host: "s".into(),
        },
        instance_id: "i-1".into(),
        legacy_host: "s".into(),
    };
    hosts(&store).ssh_wait(&target, 20, &()).await.unwrap();
    let learned = store.host_key(&target.pin).await.unwrap().unwrap();
    // A store deletes the keys of an instance with it: rule `the_first_host_key_stays_until_its_instance_goes`.
    assert_eq!(learned.instance_id, "i-1");
    assert!(learned.key.starts_with("ssh-"), "{}", learned.key);
}
