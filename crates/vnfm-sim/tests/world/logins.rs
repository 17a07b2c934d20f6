//! Keystone: passwords, tokens, application credentials.

use reqwest::Method;
use serde_json::json;

use crate::support::{Client, password_login, read, three_servers, world};

#[tokio::test]
async fn a_wrong_password_gets_401_and_a_new_password_revokes_tokens() {
    let world = world().await;
    let wrong = Client::login_with(&world, &password_login("nfv", "wrong"))
        .await
        .err()
        .unwrap();
    assert_eq!(
        (wrong.status.as_u16(), wrong.body["error"]["title"].as_str()),
        (401, Some("Unauthorized"))
    );
    assert!(
        wrong.headers["www-authenticate"]
            .to_str()
            .unwrap()
            .starts_with("Keystone uri=")
    );
    let nfv = Client::login(&world, "nfv").await;
    assert_eq!(nfv.get("orchestration", "/stacks").await.status, 200);
    assert!(world.cloud().set_password("nfv", "new"));
    assert_eq!(nfv.get("orchestration", "/stacks").await.status, 401);
    assert_eq!(nfv.get("compute", "/servers").await.status, 401);
    assert!(
        Client::login_with(&world, &password_login("nfv", "new"))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn heat_refuses_to_create_stacks_with_an_application_credential() {
    let world = world().await;
    let nfv = Client::login(&world, "nfv").await;
    let me = read(
        nfv.http
            .get(format!("{}/auth/tokens", world.endpoints().auth_url))
            .header("x-auth-token", &nfv.token)
            .header("x-subject-token", &nfv.token),
    )
    .await
    .unwrap();
    let user = me.body["token"]["user"]["id"].as_str().unwrap().to_owned();
    let created = nfv
        .ask(
            Method::POST,
            (
                "identity",
                &format!("/users/{user}/application_credentials"),
            ),
            Some(&json!({ "application_credential": { "name": "c" } })),
        )
        .await
        .unwrap();
    assert_eq!(created.status, 201, "{}", created.body);
    let credential = &created.body["application_credential"];
    let login = json!({ "auth": { "identity": { "methods": ["application_credential"], "application_credential": { "id": credential["id"], "secret": credential["secret"] } } } });
    let by_credential = Client::login_with(&world, &login).await.ok().unwrap();
    assert_eq!(by_credential.get("compute", "/servers").await.status, 200);
    let refused = by_credential.create("x", &three_servers(), json!({})).await;
    assert_eq!(
        (
            refused.status.as_u16(),
            refused.body["error"]["type"].as_str()
        ),
        (500, Some("RemoteError"))
    );
    let mut scoped = login.clone();
    scoped["auth"]["scope"] = json!({ "project": { "id": nfv.project } });
    let refused = Client::login_with(&world, &scoped).await.err().unwrap();
    assert_eq!(
        refused.message(),
        "Application credentials cannot request a scope."
    );
}
