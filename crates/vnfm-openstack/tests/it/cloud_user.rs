//! A user who changes servers behind the driver's back and reads stacks directly.

use reqwest::{Client, Method};
use serde_json::{Value, json};
use vnfm_types::VimConnectionInfo;

/// A user of the cloud, logged in.
pub(crate) struct CloudUser {
    client: Client,
    token: String,
    catalog: Value,
}

impl CloudUser {
    /// Logs in as the connection's user, or as `user`, whose project has the user's name.
    pub(crate) async fn log_in(info: &VimConnectionInfo, user: Option<(&str, &str)>) -> Self {
        let endpoint = info.interface_info["endpoint"]
            .as_str()
            .unwrap()
            .trim_end_matches('/');
        let access = |name: &str| info.access_info[name].as_str().unwrap().to_owned();
        let (name, password) = user.map_or_else(
            || (access("username"), access("password")),
            |(name, password)| (name.to_owned(), password.to_owned()),
        );
        let client = Client::builder().no_proxy().build().unwrap();
        let domain = json!({"id": "default"});
        let login = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": name, "password": password, "domain": domain}}},
            "scope": {"project": {"name": name, "domain": domain}},
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
        Self {
            client,
            token,
            catalog: body["token"]["catalog"].clone(),
        }
    }

    fn endpoint(&self, service: &str) -> &str {
        let services = self.catalog.as_array().unwrap();
        let found = services.iter().find(|one| one["type"] == service).unwrap();
        let endpoints = found["endpoints"].as_array().unwrap();
        endpoints
            .iter()
            .find(|one| one["interface"] == "public")
            .unwrap()["url"]
            .as_str()
            .unwrap()
    }

    /// The response of a service to an arbitrary call; `null` is no body.
    pub(crate) async fn call(
        &self,
        method: Method,
        (service, path): (&str, &str),
        body: Value,
    ) -> Value {
        let url = format!("{}{path}", self.endpoint(service));
        let mut call = self
            .client
            .request(method, &url)
            .header("X-Auth-Token", &self.token);
        if !body.is_null() {
            call = call.json(&body);
        }
        let reply = call.send().await.unwrap();
        let status = reply.status();
        let text = reply.text().await.unwrap();
        assert!(
            status.is_success() || status == 404,
            "{url}: {status} {text}"
        );
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Deletes a server and waits until Nova no longer has it.
    pub(crate) async fn delete_server(&self, id: &str) {
        let path = format!("/servers/{id}");
        self.call(Method::DELETE, ("compute", &path), Value::Null)
            .await;
        let deleted = async {
            while self.has_server(id).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_mins(1), deleted)
            .await
            .unwrap();
    }

    pub(crate) async fn has_server(&self, id: &str) -> bool {
        let path = format!("/servers/{id}");
        self.call(Method::GET, ("compute", &path), Value::Null)
            .await
            .get("server")
            .is_some()
    }

    /// Sets a server to ERROR; only an administrator may.
    pub(crate) async fn break_server(&self, id: &str) {
        let path = format!("/servers/{id}/action");
        let state = json!({"os-resetState": {"state": "error"}});
        self.call(Method::POST, ("compute", &path), state).await;
    }

    /// The tags and the status of a stack.
    pub(crate) async fn stack(&self, name: &str, id: &str) -> (Vec<String>, String) {
        let path = format!("/stacks/{name}/{id}");
        let stack = self
            .call(Method::GET, ("orchestration", &path), Value::Null)
            .await;
        let tags = serde_json::from_value(stack["stack"]["tags"].clone()).unwrap();
        (
            tags,
            stack["stack"]["stack_status"].as_str().unwrap().to_owned(),
        )
    }
}
