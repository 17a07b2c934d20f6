//! Registries that fail: what becomes of an instance whose images they should have.

use crate::faults::faulty_cluster;
use crate::images::package;
use crate::support::World;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use vnfm_core::ports::ErrorKind;

/// How a registry answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// The first so many requests get 503; then it has every image, which others pushed.
    FailsFirst(usize),
    /// It accepts connections and is silent.
    Silent,
}

/// Starts a registry, and returns its address.
async fn registry(manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, manner, Arc::clone(&count)));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, manner: Manner, count: Arc<AtomicUsize>) {
    let mut request = vec![0; 16 << 10];
    let length = stream.read(&mut request).await.unwrap_or_default();
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    let Manner::FailsFirst(failures) = manner else {
        return std::future::pending().await;
    };
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (head, body) = if count.fetch_add(1, Ordering::Relaxed) < failures {
        ("503 Service Unavailable".to_owned(), "")
    } else if path.contains("/tags/list") {
        ("200 OK".to_owned(), "{\"tags\": [\"1.0\"]}")
    } else {
        let digest = path.rsplit('/').next().unwrap_or_default();
        (format!("200 OK\r\nDocker-Content-Digest: {digest}"), "")
    };
    let length = body.len();
    let text =
        format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    let _ = stream.write_all(text.as_bytes()).await;
}

fn use_registry(world: &World, address: Option<String>) {
    world.vim.update(|info| {
        let interface = &mut info.interface_info;
        match address {
            Some(address) => interface.insert("registry".into(), address.into()),
            None => interface.remove("registry"),
        };
    });
}

#[tokio::test]
async fn a_registry_that_fails_for_a_moment_is_tried_again() {
    let (world, ..) = faulty_cluster().await;
    use_registry(&world, Some(registry(Manner::FailsFirst(1)).await));
    let (what, _) = package("acme/web:1.0");
    let made = world.instantiate(&what, 20).await.unwrap();
    world.seen.wait_for("the registry to respond").await;
    world.terminate(&what, made.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_silent_registry_ends_the_step_at_its_deadline_and_leaves_no_pods() {
    let (world, ..) = faulty_cluster().await;
    use_registry(&world, Some(registry(Manner::Silent).await));
    let (what, _) = package("acme/web:1.0");
    let late = world.instantiate(&what, 2).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable, "{late}");
    assert!(late.to_string().contains("push image"), "{late}");
    use_registry(&world, None);
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_silent_registry_delays_a_termination_until_the_vim_has_none() {
    let (world, ..) = faulty_cluster().await;
    use_registry(&world, Some(registry(Manner::FailsFirst(0)).await));
    let (what, _) = package("acme/web:1.0");
    let made = world.instantiate(&what, 20).await.unwrap();
    use_registry(&world, Some(registry(Manner::Silent).await));
    let late = world.terminate_within(&what, made.handle.clone(), 3).await;
    let late = late.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable, "{late}");
    assert!(late.to_string().contains("give up image"), "{late}");
    assert!(!world.has_any().await, "pods do not wait for the registry");
    use_registry(&world, None);
    world.terminate(&what, made.handle).await.unwrap();
    world.assert_nothing_left().await;
}
