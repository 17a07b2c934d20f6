//! Subscribers behind an nginx, as operators run them: one requires our certificate, one a Keycloak token.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use vnfm_tests::live::{optional_neighbour, program};
use vnfm_tests::programs::{Server, until};
use vnfm_tests::sources;

use crate::identity::{Keycloak, free_port, part_of};

const SUBSCRIPTIONS: &str = "/vnflcm/v2/subscriptions";
/// How long nginx may take to start, and a notification to arrive.
const TIMEOUT: Duration = Duration::from_secs(20);

/// An nginx that accepts and logs everything, and is stopped on drop.
struct Nginx {
    process: Child,
    port: u16,
    heard: PathBuf,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Nginx {
    /// In front of a server that accepts everything, with these TLS settings.
    fn start(nginx: &Path, folder: &Path, tls: &str) -> Self {
        let (port, behind) = (free_port(), free_port());
        let heard = folder.join("heard.log");
        let (at, ssl) = (folder.display(), if tls.is_empty() { "" } else { " ssl" });
        // nginx logs a body only if it forwards the request.
        let text = format!(
            r#"daemon off; master_process off; pid {at}/nginx.pid; events {{}}
            http {{
              log_format received escape=json '{{"method":"$request_method","verified":"$ssl_client_verify","who":"$ssl_client_s_dn","authorization":"$http_authorization","status":"$status","body":"$request_body"}}';
              client_body_temp_path {at}/t1; proxy_temp_path {at}/t2; fastcgi_temp_path {at}/t3; uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5;
              server {{ listen 127.0.0.1:{behind}; access_log off; return 204; }}
              server {{ listen 127.0.0.1:{port}{ssl}; access_log {at}/heard.log received; {tls}
                location / {{ proxy_pass http://127.0.0.1:{behind}; }} }}
            }}"#
        );
        let config = folder.join("nginx.conf");
        std::fs::write(&config, text).unwrap();
        let words = File::create(folder.join("nginx.log")).unwrap();
        let mut command = Command::new(nginx);
        command
            .arg("-p")
            .arg(folder)
            .arg("-c")
            .arg(&config)
            .args(["-e", "stderr"]);
        command
            .stdin(Stdio::null())
            .stdout(words.try_clone().unwrap())
            .stderr(words);
        let process = command.spawn().unwrap();
        let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).ok();
        until("nginx listens", TIMEOUT, listens);
        Self {
            process,
            port,
            heard,
        }
    }

    /// The requests received, once there are `many`.
    fn heard(&self, many: usize) -> Vec<Value> {
        until("nginx has received the requests", TIMEOUT, || {
            let text = std::fs::read_to_string(&self.heard).unwrap_or_default();
            let received: Vec<Value> = text.lines().flat_map(serde_json::from_str).collect();
            (received.len() >= many).then_some(received)
        })
    }
}

/// A server that may call this machine, with these settings for notifications, and the package of VNF-B.
fn server(folder: &TempDir, mut notifications: Value) -> (Server, String) {
    notifications["networks"] = json!(["127.0.0.0/8"]);
    let config = json!({ "notifications": notifications });
    std::fs::write(folder.path().join("server.yaml"), config.to_string()).unwrap();
    let server = Server::start(folder.path(), "info");
    let sample = sources::root().join("vnfd-samples/vnf-b-cnf");
    let package = server.ctl(&["package", "onboard", &sample.to_string_lossy()]);
    (server, package["id"].as_str().unwrap().to_owned())
}

/// The notifications about an instance that is created and deleted.
fn notifications_of_an_instance(server: &Server, package: &str, nginx: &Nginx) -> Vec<Value> {
    let created = server.ctl(&["vnf", "create", "--package", package]);
    server.ctl(&["vnf", "delete", created["id"].as_str().unwrap()]);
    let heard = nginx.heard(3);
    assert_eq!(heard[0]["method"], "GET", "the callback test");
    let kinds: Vec<_> = heard[1..]
        .iter()
        .map(|one| {
            let body: Value = serde_json::from_str(one["body"].as_str().unwrap()).unwrap();
            assert_eq!(
                (&one["method"], &one["status"]),
                (&json!("POST"), &json!("204"))
            );
            body["notificationType"].as_str().unwrap().to_owned()
        })
        .collect();
    let expected = [
        "VnfIdentifierCreationNotification",
        "VnfIdentifierDeletionNotification",
    ];
    assert_eq!(kinds, expected);
    heard
}

#[test]
fn notifications_present_a_client_certificate() {
    let Some(nginx) = program("/usr/sbin/nginx", "nginx-light") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for (who, host) in [("nginx", "127.0.0.1"), ("us", "vnfm.example.com")] {
        let created = rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
        std::fs::write(file(&format!("{who}.pem")), created.cert.pem()).unwrap();
        std::fs::write(
            file(&format!("{who}.key")),
            created.signing_key.serialize_pem(),
        )
        .unwrap();
    }
    let at = folder.path().display();
    let tls = format!(
        "ssl_certificate {at}/nginx.pem; ssl_certificate_key {at}/nginx.key; ssl_client_certificate {at}/us.pem; ssl_verify_client on;"
    );
    let nginx = Nginx::start(nginx, folder.path(), &tls);
    let (server, package) = server(
        &folder,
        json!({"authorities_file": file("nginx.pem"),
            "certificate": {"cert": file("us.pem"), "key": file("us.key")}}),
    );
    let callback = format!("https://127.0.0.1:{}/told", nginx.port);
    let without = json!({ "callbackUri": callback }).to_string();
    let (status, refused) = server.http("POST", SUBSCRIPTIONS, &without);
    assert_eq!(status, 422, "it does not name TLS_CERT: {refused}");
    assert_eq!(nginx.heard(1)[0]["verified"], "NONE");
    std::fs::write(&nginx.heard, "").unwrap();
    let with = json!({"callbackUri": callback, "authentication": {"authType": ["TLS_CERT"]}});
    let (status, created) = server.http("POST", SUBSCRIPTIONS, &with.to_string());
    assert_eq!(status, 201, "{created}");
    for one in notifications_of_an_instance(&server, &package, &nginx) {
        assert_eq!(one["verified"], "SUCCESS", "{one}");
    }
}

#[test]
fn notifications_carry_an_oauth2_token_from_keycloak() {
    let Some(distribution) = optional_neighbour("VNFM_LIVE_KEYCLOAK") else {
        return;
    };
    let Some(nginx) = program("/usr/sbin/nginx", "nginx-light") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let keycloak = Keycloak::start(&distribution, &folder.path().join("keycloak.log"));
    keycloak.furnish();
    let nginx = Nginx::start(nginx, folder.path(), "");
    let (server, package) = server(&folder, json!({}));
    let subscription = |password: &str| {
        json!({"callbackUri": format!("http://127.0.0.1:{}/told", nginx.port), "authentication": {
            "authType": ["OAUTH2_CLIENT_CREDENTIALS"],
            "paramsOauth2ClientCredentials": {"clientId": "cook", "clientPassword": password,
                "tokenEndpoint": format!("{}/realms/nfv/protocol/openid-connect/token", keycloak.url)}}})
        .to_string()
    };
    let (status, refused) = server.http("POST", SUBSCRIPTIONS, &subscription("wrong-password"));
    assert_eq!(status, 422, "{refused}");
    assert!(!refused.to_string().contains("wrong-password"), "{refused}");
    let (status, created) = server.http("POST", SUBSCRIPTIONS, &subscription("client-secret"));
    assert_eq!(status, 201, "{created}");
    for one in notifications_of_an_instance(&server, &package, &nginx) {
        let token = one["authorization"]
            .as_str()
            .unwrap()
            .strip_prefix("Bearer ")
            .unwrap();
        assert_eq!(part_of(token, 1)["azp"], "cook");
    }
}
