//! An application credential, created for a test and deleted at its end.

use reqwest::Client;
use serde_json::{Value, json};
use vnfm_types::VimConnectionInfo;

pub(crate) struct Credential {
    client: Client,
    url: String,
    token: String,
    id: String,
}

const SECRET: &str = "planted-credential-secret";

impl Credential {
    /// Creates one for the user of a connection.
    pub(crate) async fn create(info: &VimConnectionInfo) -> Self {
        let endpoint = info.interface_info["endpoint"]
            .as_str()
            .unwrap()
            .trim_end_matches('/');
        let access = |name: &str| info.access_info[name].as_str().unwrap();
        let client = Client::builder().no_proxy().build().unwrap();
        let domain = json!({"id": "default"});
        let login = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": access("username"), "password": access("password"), "domain": domain}}},
            "scope": {"project": {"name": access("project"), "domain": domain}},
        }});
        let reply = client
            .post(format!("{endpoint}/auth/tokens"))
            .json(&login)
            .send()
            .await
            .unwrap();
        let token = reply.headers()["x-subject-token"]
            .to_str()
            .unwrap()
            .to_owned();
        let body: Value = reply.json().await.unwrap();
        let user = body["token"]["user"]["id"].as_str().unwrap();
        let all = format!("{endpoint}/users/{user}/application_credentials");
        let body = json!({"application_credential": {"name": uuid::Uuid::new_v4(), "secret": SECRET, "unrestricted": true}});
        let reply = client
            .post(&all)
            .header("X-Auth-Token", &token)
            .json(&body)
            .send()
            .await
            .unwrap();
        let body: Value = reply.json().await.unwrap();
        let id = body["application_credential"]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        Self {
            client,
            url: format!("{all}/{id}"),
            token,
            id,
        }
    }

    /// The same connection, logging in with the credential.
    pub(crate) fn connection(&self, info: &VimConnectionInfo) -> VimConnectionInfo {
        let mut info = info.clone();
        info.access_info.clear();
        info.access_info
            .insert("applicationCredentialId".into(), json!(self.id));
        info.access_info
            .insert("applicationCredentialSecret".into(), json!(SECRET));
        info
    }

    pub(crate) async fn delete(&self) {
        let call = self
            .client
            .delete(&self.url)
            .header("X-Auth-Token", &self.token);
        assert!(call.send().await.unwrap().status().is_success());
    }
}
