//! Forged destinations: every request member that the server calls × spellings of addresses that no policy allows. I10
//! must hold, and no response may contain what the canary returns (I6).

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use vnfm_tests::rng::SeededRng;

use crate::canary::Canary;
use crate::cases::Case;
use crate::lifecycle::{self, BeginOutcome};
use crate::processes::CLOUD_PASSWORD;
use crate::testbed::Testbed;

/// How long an operation may take.
const TIMEOUT: Duration = Duration::from_secs(5);

const SPELLINGS: &[&str] = &[
    "http://@A:@P/v3",
    "http://@N:@P/v3",
    "http://@X:@P/v3",
    "http://[::ffff:@A]:@P/v3",
    "http://127.0.0.1\\@@A:@P/v3",
    "http://user:word@@A:@P/v3",
    "http://@A:@P/v3?a=http://127.0.0.1/",
    "http://@A.:@P/v3",
    "HTTP://@A:@P/404meta?x=",
    "http://127.99.1:@P/v3",
    "http://0:@P/v3",
    "http://localhost:@P/v3",
    "http://127.evil.example:@P/v3",
    "http://198.51.100.9:@P/v3",
    "http://169.254.169.254:@P/latest/meta-data",
];

/// Request members that contain an address.
const MEMBERS: &[&str] = &[
    "openstack endpoint of an operation",
    "kubernetes endpoint of an operation",
    "openstack proxy of an operation",
    "kubernetes proxy of an operation",
    "openstack endpoint of a VIM",
    "kubernetes endpoint of a VIM",
    "openstack proxy of a VIM",
    "endpoint of a VIM that is there",
    "proxy of a VIM that is there",
    "trust of a VIM that is there",
    "callback",
    "token endpoint of a callback",
    "address of a package",
];

/// Each member × each spelling.
pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for member in MEMBERS {
        for spelling in SPELLINGS {
            let what = format!("{member}: {spelling}");
            all.push(Case::new("destination", what, move |testbed, rng| {
                let url = spell(spelling, testbed.canary.address());
                if member.ends_with("of an operation") {
                    let connection = connection(testbed, member, &url);
                    let (sample, vnfd) = testbed.samples[0].clone();
                    let mut request = sample.request("instantiate", "");
                    request["vimConnectionInfo"] = json!({"vim1": connection});
                    let instance = lifecycle::create(testbed, "olga", &vnfd)?;
                    let begun =
                        lifecycle::begin(testbed, "olga", (&instance, "instantiate"), &request)?;
                    if let BeginOutcome::Op(op) = begun {
                        lifecycle::wait_for_end(testbed, "olga", &op, TIMEOUT)?;
                    }
                    return lifecycle::remove(testbed, "olga", &instance, rng);
                }
                send_request(testbed, member, &url)
            }));
        }
    }
    all.push(Case::new(
        "destination",
        "a token in clear text".into(),
        clear_text_token,
    ));
    for member in [
        "interfaceInfo/endpoint",
        "extra/proxy",
        "interfaceInfo/identityUri",
    ] {
        let what = format!("a stored login, and another `{member}` that is allowed");
        let act = move |testbed: &mut Testbed, _: &mut SeededRng| stored(testbed, member);
        all.push(Case::new("destination", what, act));
    }
    all
}

/// Changes a VIM to another allowed address: the stored login must not be sent there.
fn stored(testbed: &mut Testbed, member: &str) -> Result<()> {
    let listener = Canary::at("127.0.0.1")?;
    let real_endpoint = testbed.endpoint("authUrl").to_owned();
    let body =
        json!({"name": "bound", "connection": connection(testbed, "openstack", &real_endpoint)});
    let vim = testbed.create("ann", "/vnfm/v1/vims", &body)?;
    let path = format!("/vnfm/v1/vims/{vim}");
    let url = format!("http://{}", listener.address());
    let url = if member.ends_with("proxy") {
        url
    } else {
        format!("{url}/v3")
    };
    let (group, name) = member.split_once('/').unwrap_or((member, ""));
    let change = json!({ "connection": { group: { name: url } } });
    testbed.clients.json("ann", ("PATCH", &path), &change)?;
    testbed
        .clients
        .send("ann", ("POST", &format!("{path}/check")), None)?;
    let deleted = testbed.clients.send("ann", ("DELETE", &path), None)?;
    ensure!(
        deleted.is_success(),
        "cannot delete a VIM: {}",
        deleted.text()
    );
    let seen = listener.seen();
    let found = seen.iter().find(|request| request.contains(CLOUD_PASSWORD));
    ensure!(
        found.is_none(),
        "I10: a stored login was sent to another `{member}`"
    );
    Ok(())
}

/// A cluster whose host name starts like a loopback address, behind a recording proxy: no token may be sent in clear text.
fn clear_text_token(testbed: &mut Testbed, rng: &mut SeededRng) -> Result<()> {
    let listener = Canary::at("127.0.0.1")?;
    for host in [
        "127.evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
    ] {
        let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
            "interfaceInfo": {"endpoint": format!("http://{host}:6443")},
            "accessInfo": {"bearer_token": crate::payloads::SECRET},
            "extra": {"proxy": format!("http://{}", listener.address())}});
        let (sample, vnfd) = testbed.samples[0].clone();
        let mut request = sample.request("instantiate", "");
        request["vimConnectionInfo"] = json!({"vim1": connection});
        let instance = lifecycle::create(testbed, "olga", &vnfd)?;
        let begun = lifecycle::begin(testbed, "olga", (&instance, "instantiate"), &request)?;
        if let BeginOutcome::Op(op) = begun {
            lifecycle::wait_for_end(testbed, "olga", &op, TIMEOUT)?;
        }
        lifecycle::remove(testbed, "olga", &instance, rng)?;
        let leaked = listener
            .seen()
            .iter()
            .any(|request| request.contains(crate::payloads::SECRET));
        ensure!(!leaked, "I10: a token for `{host}` was sent in clear text");
    }
    Ok(())
}

fn spell(spelling: &str, address: SocketAddr) -> String {
    let plain = address.ip().to_string();
    let parts: Vec<u32> = plain
        .split('.')
        .filter_map(|part| part.parse().ok())
        .collect();
    let number = parts.iter().fold(0, |number, part| number << 8 | part);
    let marked = spelling.replace("@@A", "@\u{1}").replace("@A", "\u{1}");
    let marked = marked
        .replace("@N", &number.to_string())
        .replace("@X", &format!("{number:#x}"));
    marked
        .replace("@P", &address.port().to_string())
        .replace('\u{1}', &plain)
}

/// A connection to a VIM at this address, or to the real one through this proxy.
fn connection(testbed: &Testbed, member: &str, url: &str) -> Value {
    let is_proxy = member.contains("proxy");
    let mut connection = if member.starts_with("openstack") {
        let real_endpoint = testbed.endpoint("authUrl").to_owned();
        json!({"vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3",
            "interfaceInfo": {"endpoint": if is_proxy { real_endpoint.as_str() } else { url }},
            "accessInfo": {"username": "nfv", "password": CLOUD_PASSWORD, "project": "nfv",
                "region": "RegionOne", "projectDomain": "default", "userDomain": "default"}})
    } else {
        json!({"vimType": "ETSINFV.KUBERNETES.V_1", "interfaceInfo": {"endpoint": url},
            "accessInfo": {"bearer_token": crate::payloads::SECRET}})
    };
    if is_proxy {
        connection["extra"] = json!({ "proxy": url.trim_end_matches("/v3") });
    }
    connection
}

/// Sends a request that calls the address immediately.
fn send_request(testbed: &mut Testbed, member: &str, url: &str) -> Result<()> {
    let (user, method, path, body) = match member {
        "callback" => (
            "olga",
            "POST",
            "/vnflcm/v2/subscriptions".to_owned(),
            json!({ "callbackUri": url }),
        ),
        "token endpoint of a callback" => {
            let callback = format!("{}/notifications", testbed.endpoint("nfvo"));
            let login = json!({"clientId": "vnfm", "clientPassword": crate::payloads::SECRET,
                "tokenEndpoint": url});
            let login = json!({"authType": ["OAUTH2_CLIENT_CREDENTIALS"],
                "paramsOauth2ClientCredentials": login});
            let body = json!({"callbackUri": callback, "authentication": login});
            ("olga", "POST", "/vnflcm/v2/subscriptions".to_owned(), body)
        }
        "address of a package" => {
            let id = &testbed.fixture.ids["{vnfPkgId}"];
            let path = format!("/vnfpkgm/v2/vnf_packages/{id}/package_content/upload_from_uri");
            ("olga", "POST", path, json!({ "addressInformation": url }))
        }
        member if member.ends_with("that is there") => {
            let change = match member {
                "endpoint of a VIM that is there" => json!({"interfaceInfo": {"endpoint": url}}),
                "proxy of a VIM that is there" => json!({"extra": {"proxy": url}}),
                _ => {
                    json!({"interfaceInfo": {"endpoint": url, "skipCertificateVerification": true}})
                }
            };
            let path = format!("/vnfm/v1/vims/{}", testbed.fixture.cloud);
            ("ann", "PATCH", path, json!({ "connection": change }))
        }
        member => {
            let body = json!({"name": "elsewhere", "connection": connection(testbed, member, url)});
            ("ann", "POST", "/vnfm/v1/vims".to_owned(), body)
        }
    };
    let answer = testbed.clients.json(user, (method, &path), &body)?;
    if let Some(id) = answer.created_id().filter(|_| answer.status == 201) {
        testbed
            .clients
            .send(user, ("DELETE", &format!("{path}/{id}")), None)?;
    }
    Ok(())
}
