//! Logins with real token issuers: a Keycloak with key rotation, and the Keystone of the cloud.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use vnfm_tests::live::{neighbour, optional_neighbour};
use vnfm_tests::programs::{Server, until};

const INSTANCES: &str = "/vnflcm/v2/vnf_instances";
/// How long Keycloak may take to start.
const STARTS: Duration = Duration::from_mins(3);
const ADMIN: &str = "administrator";

/// A Keycloak without a database, which is stopped on drop.
pub(crate) struct Keycloak {
    process: Child,
    pub(crate) url: String,
}

impl Drop for Keycloak {
    fn drop(&mut self) {
        // The script, and the Java process that it started.
        let all = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-KILL", "--", &all]).status();
        let _ = self.process.wait();
    }
}

impl Keycloak {
    pub(crate) fn start(distribution: &Path, log: &Path) -> Self {
        let port = free_port();
        let mut command = Command::new(distribution.join("bin/kc.sh"));
        command.args(["start-dev", "--db=dev-mem", "--http-host=127.0.0.1"]);
        command.arg(format!("--http-port={port}"));
        command
            .env("KC_BOOTSTRAP_ADMIN_USERNAME", ADMIN)
            .env("KC_BOOTSTRAP_ADMIN_PASSWORD", ADMIN);
        let words = File::create(log).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(words.try_clone().unwrap())
            .stderr(words);
        let process = command.process_group(0).spawn().unwrap();
        let keycloak = Self {
            process,
            url: format!("http://127.0.0.1:{port}"),
        };
        until("Keycloak gives its administrator a token", STARTS, || {
            keycloak.try_admin().ok()
        });
        keycloak
    }

    fn try_admin(&self) -> Result<String, ureq::Error> {
        let form = [
            ("grant_type", "password"),
            ("client_id", "admin-cli"),
            ("username", ADMIN),
            ("password", ADMIN),
        ];
        self.token("master", &form)
    }

    fn token(&self, realm: &str, form: &[(&str, &str)]) -> Result<String, ureq::Error> {
        let url = format!("{}/realms/{realm}/protocol/openid-connect/token", self.url);
        let answer: Value = ureq::post(&url)
            .send_form(form.iter().copied())?
            .body_mut()
            .read_json()?;
        Ok(answer["access_token"].as_str().unwrap().to_owned())
    }

    fn administer(&self, path: &str, body: &Value) {
        let login = format!("Bearer {}", self.try_admin().unwrap());
        let url = format!("{}/admin/realms{path}", self.url);
        ureq::post(&url)
            .header("authorization", &login)
            .send_json(body)
            .unwrap();
    }

    /// A realm with a client that has the role `vnfm-operator`, and tokens for us.
    pub(crate) fn furnish(&self) {
        let audience = json!({"name": "vnfm", "protocol": "openid-connect", "protocolMapper": "oidc-audience-mapper",
            "config": {"included.custom.audience": "vnfm", "access.token.claim": "true"}});
        let client = |name: &str| {
            json!({"clientId": name, "secret": "client-secret", "publicClient": false, "serviceAccountsEnabled": true,
                "protocolMappers": [audience]})
        };
        let realm = json!({
            "realm": "nfv", "id": "nfv", "enabled": true,
            "roles": {"realm": [{"name": "vnfm-operator"}]},
            "clients": [client("nfvo"), client("cook")],
            "users": [{"username": "service-account-nfvo", "enabled": true, "serviceAccountClientId": "nfvo",
                "realmRoles": ["vnfm-operator"]}],
        });
        self.administer("", &realm);
    }

    /// Rotates the key that signs tokens.
    fn rotate(&self) {
        let config = json!({"priority": ["500"], "keySize": ["2048"], "algorithm": ["RS256"], "enabled": ["true"],
            "active": ["true"]});
        let key = json!({"name": "new", "providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider",
            "parentId": "nfv", "config": config});
        self.administer("/nfv/components", &key);
    }

    fn client_token(&self, name: &str) -> String {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", name),
            ("client_secret", "client-secret"),
        ];
        self.token("nfv", &form).unwrap()
    }
}

/// An unused port, for a program that cannot choose one.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// A token's header (0) or claims (1).
pub(crate) fn part_of(token: &str, part: usize) -> Value {
    use base64::Engine as _;
    let part = token.split('.').nth(part).unwrap();
    let part = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(part)
        .unwrap();
    serde_json::from_slice(&part).unwrap()
}

#[test]
fn keycloak_tokens_are_accepted_across_key_rotation() {
    let Some(distribution) = optional_neighbour("VNFM_LIVE_KEYCLOAK") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let keycloak = Keycloak::start(&distribution, &folder.path().join("keycloak.log"));
    keycloak.furnish();
    let access = json!({"access": {"oauth2": [{
        "issuer": format!("{}/realms/nfv", keycloak.url),
        "audience": ["vnfm"],
        "jwks_url": format!("{}/realms/nfv/protocol/openid-connect/certs", keycloak.url),
        "name_claim": "preferred_username",
        "refetch_seconds": 0,
        "rules": [{"claim": "realm_access.roles", "has": "vnfm-operator", "gets": {"tenant": "acme", "role": "operate"}}],
    }]}});
    std::fs::write(folder.path().join("server.yaml"), access.to_string()).unwrap();
    let server = Server::start(folder.path(), "info");
    let status = |token: &str| {
        server
            .http_as(
                "GET",
                INSTANCES,
                ("authorization", &format!("Bearer {token}")),
            )
            .0
    };

    let old = keycloak.client_token("nfvo");
    assert_eq!(status(&old), 200);
    assert_eq!(
        status(&keycloak.client_token("cook")),
        403,
        "it has not the role"
    );
    assert_eq!(
        status(&keycloak.try_admin().unwrap()),
        401,
        "another realm's"
    );
    keycloak.rotate();
    let new = keycloak.client_token("nfvo");
    assert_ne!(part_of(&old, 0)["kid"], part_of(&new, 0)["kid"]);
    assert_eq!(status(&new), 200);
    assert_eq!(status(&old), 200, "it is still published");
    assert_eq!(server.http("GET", INSTANCES, "").0, 401);
}

#[test]
fn keystone_tokens_are_accepted() {
    let Some(clouds) = neighbour("VNFM_LIVE_OPENSTACK") else {
        return;
    };
    let file: Value = serde_yaml::from_str(&std::fs::read_to_string(&clouds).unwrap()).unwrap();
    let entry = |cloud: &str, member: &str| {
        file["clouds"][cloud]["auth"][member]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, entry("admin", "password")).unwrap();
    let access = json!({"access": {"keystone": {
        "endpoint": entry("admin", "auth_url"),
        "user": entry("admin", "username"),
        "project": entry("admin", "project_name"),
        "password_file": password,
        "rules": [{"project": entry("nfv", "project_name"), "role": "member", "gets": {"tenant": "acme", "role": "operate"}}],
    }}});
    std::fs::write(folder.path().join("server.yaml"), access.to_string()).unwrap();
    let server = Server::start(folder.path(), "info");
    let status = |token: &str| server.http_as("GET", INSTANCES, ("x-auth-token", token)).0;
    let token = |cloud: &str| {
        let login = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {"name": entry(cloud, "username"),
                "domain": {"id": "default"}, "password": entry(cloud, "password")}}},
            "scope": {"project": {"name": entry(cloud, "project_name"), "domain": {"id": "default"}}}}});
        let answer = ureq::post(&format!("{}/auth/tokens", entry(cloud, "auth_url")))
            .send_json(login)
            .unwrap();
        answer.headers()["x-subject-token"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(status(&token("nfv")), 200);
    assert_eq!(status(&token("admin")), 403, "no rule matches that project");
    assert_eq!(status("gAAAAAnone"), 401);
}
