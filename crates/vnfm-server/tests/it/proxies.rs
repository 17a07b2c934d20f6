//! Links and prefixes behind a reverse proxy, and calls to a VIM through a forward proxy.

use crate::configuration::{PACKAGES, Server};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[tokio::test]
async fn behind_a_proxy_links_use_the_address_of_the_client() {
    let forwarded = [(
        "forwarded",
        "for=192.0.2.9;host=vnfm.example.com;proto=https",
    )];
    let location = |response: &reqwest::Response| {
        response.headers()["location"]
            .to_str()
            .unwrap()
            .rsplit_once("/vnfpkgm/")
            .unwrap()
            .0
            .to_owned()
    };
    let server = Server::start("trusted_proxies: [127.0.0.0/8]", &[]);
    let response = server.post(PACKAGES, &forwarded, &json!({})).await;
    assert_eq!(location(&response), "https://vnfm.example.com");
    let links = response.json::<Value>().await.unwrap()["_links"].to_string();
    assert!(
        links.contains("https://vnfm.example.com/vnfpkgm/v2/"),
        "{links}"
    );
    assert_eq!(
        location(&server.post(PACKAGES, &[], &json!({})).await),
        server.url
    );
    let stranger = Server::start("trusted_proxies: [10.0.0.0/8]", &[]);
    assert_eq!(
        location(&stranger.post(PACKAGES, &forwarded, &json!({})).await),
        stranger.url
    );
    let public = "public_url: https://public.example.com/\ntrusted_proxies: [127.0.0.0/8]";
    let public = Server::start(public, &[]);
    let response = public.post(PACKAGES, &forwarded, &json!({})).await;
    assert_eq!(location(&response), "https://public.example.com");
}

/// `uriPrefix` of SOL013 7.1.6: the address that the client used, with a trailing slash.
#[tokio::test]
async fn behind_a_proxy_the_uri_prefix_uses_the_address_of_the_client() {
    let x_forwarded = [
        ("x-forwarded-host", "vnfm.example.com"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-prefix", "/nfv"),
    ];
    let forwarded = [(
        "forwarded",
        "for=192.0.2.9;host=vnfm.example.com;proto=https",
    )];
    let prefix = async |server: &Server, headers: &[(&str, &str)]| {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.get(format!("{}/vnflcm/v2/api_versions", server.url));
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        let body: Value = request.send().await.unwrap().json().await.unwrap();
        body["uriPrefix"].as_str().unwrap().to_owned()
    };
    let server = Server::start("trusted_proxies: [127.0.0.0/8]", &[]);
    assert_eq!(
        prefix(&server, &[]).await,
        format!("{}/vnflcm/v2/", server.url)
    );
    assert_eq!(
        prefix(&server, &forwarded).await,
        "https://vnfm.example.com/vnflcm/v2/"
    );
    assert_eq!(
        prefix(&server, &x_forwarded).await,
        "https://vnfm.example.com/nfv/vnflcm/v2/"
    );
    let stranger = Server::start("trusted_proxies: [10.0.0.0/8]", &[]);
    for headers in [&forwarded[..], &x_forwarded] {
        let own = format!("{}/vnflcm/v2/", stranger.url);
        assert_eq!(prefix(&stranger, headers).await, own, "{headers:?}");
    }
}

/// A server that counts connections and refuses every request.
fn listener() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, SeqCst);
            refuse(stream);
        }
    });
    (url, seen)
}

fn refuse(mut stream: TcpStream) {
    let mut request_head = [0; 4096];
    let _ = stream.read(&mut request_head); // the response is always the same
    let _ = stream.write_all(b"HTTP/1.1 418 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
}

#[tokio::test]
async fn a_vim_is_called_through_its_own_proxy_and_never_through_one_of_the_environment() {
    let (trap, trapped) = listener();
    let names = [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ];
    let environment: Vec<_> = names.iter().map(|name| (*name, trap.as_str())).collect();
    let server = Server::start("", &environment);
    for (kind, access) in [
        (
            "ETSINFV.OPENSTACK_KEYSTONE.V_3",
            json!({"username": "u", "password": "p", "project": "p"}),
        ),
        ("ETSINFV.KUBERNETES.V_1", json!({"bearer_token": "t"})),
    ] {
        let (vim, called) = listener();
        let register = async |extra: Value| {
            let connection = json!({"vimType": kind, "interfaceInfo": {"endpoint": vim}, "accessInfo": access, "extra": extra});
            let body = json!({"name": "v", "connection": connection});
            server
                .post("/vnfm/v1/vims", &[], &body)
                .await
                .status()
                .as_u16()
        };
        assert!(register(json!({})).await >= 400, "{kind}");
        assert!(called.load(SeqCst) > 0, "{kind}: the VIM was not called");
        assert_eq!(
            trapped.load(SeqCst),
            0,
            "{kind}: called through the proxy of the environment"
        );
        let (proxy, asked) = listener();
        let before = called.load(SeqCst);
        register(json!({"proxy": proxy})).await;
        assert!(asked.load(SeqCst) > 0, "{kind}: its own proxy was not used");
        assert_eq!(
            called.load(SeqCst),
            before,
            "{kind}: called without its proxy"
        );
        assert_eq!(
            register(json!({"proxy": "socks5://u:p@h"})).await,
            422,
            "{kind}"
        );
    }
}
