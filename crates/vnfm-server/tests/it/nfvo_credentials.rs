//! Renewed credentials for the NFVO: the next package is fetched with them.

use crate::bench::{Bench, INSTANCES, Response, Setup, packed};
use serde_json::json;
use vnfm_descriptor::{Limits, Package};
use vnfm_sim::nfvo::{CLIENT, PASSWORD, Policy, RequiredLogin};
use vnfm_sim::{Options, World};

/// A server with these settings of `nfvo`, which also provides packages.
async fn at_nfvo(world: &World, more: &str) -> Bench {
    let package = Package::from_bytes(packed("vnf-b-cnf"), &Limits::default()).unwrap();
    let vnfd = &package.vnfd().descriptor_id;
    world.nfvo().onboard("at-nfvo", vnfd, packed("vnf-b-cnf"));
    let nfvo = Some(format!("{{{more}, packages: {{subscribe: false}}}}"));
    Bench::with(Setup {
        nfvo,
        ..Setup::default()
    })
    .await
}

async fn made_of_b(bench: &Bench) -> Response {
    let package = Package::from_bytes(packed("vnf-b-cnf"), &Limits::default()).unwrap();
    bench
        .post(INSTANCES, &json!({"vnfdId": package.vnfd().descriptor_id}))
        .await
}

#[tokio::test]
async fn a_renewed_password_is_used_for_the_next_package() {
    let world = World::start(Options::default()).await.unwrap();
    world.nfvo().set_policy(Policy {
        login: RequiredLogin::Basic,
        ..Policy::default()
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "planted-old-password").unwrap();
    let login = format!(
        "basic: {{user: {CLIENT}, password_file: '{}'}}",
        file.display()
    );
    let bench = at_nfvo(
        &world,
        &format!("endpoint: '{}', {login}", world.nfvo().url()),
    )
    .await;
    let refused = made_of_b(&bench).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("nfvo.packages-refused"))
    );
    std::fs::write(&file, PASSWORD).unwrap();
    assert_eq!(made_of_b(&bench).await.status, 201);
}

#[tokio::test]
async fn a_renewed_certificate_is_used_for_the_next_package() {
    let world = World::start(Options::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let at = folder.path().display();
    std::fs::write(file("ca"), world.nfvo().ca_certificate()).unwrap();
    let strange = rcgen::generate_simple_self_signed(vec!["vnfm.example.com".into()]).unwrap();
    std::fs::write(file("cert"), strange.cert.pem()).unwrap();
    std::fs::write(file("key"), strange.signing_key.serialize_pem()).unwrap();
    let tls = format!("authorities_file: {at}/ca, certificate: {{cert: {at}/cert, key: {at}/key}}");
    let secure = world.nfvo().secure_url();
    let bench = at_nfvo(&world, &format!("endpoint: '{secure}', {tls}")).await;
    let refused = made_of_b(&bench).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (503, &json!("nfvo.unreachable"))
    );
    let pair = world.nfvo().certificate();
    let (cert, key) = pair.split_at(pair.find("-----BEGIN PRIVATE KEY").unwrap());
    std::fs::write(file("cert"), cert).unwrap();
    std::fs::write(file("key"), key).unwrap();
    assert_eq!(made_of_b(&bench).await.status, 201);
}
