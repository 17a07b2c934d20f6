//! A client of the simulated OpenStack, and polling without sleeping.

use std::future::Future;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use vnfm_sim::{Options, World};

/// A world in which nothing takes time.
pub(crate) async fn world() -> World {
    World::start(Options::default()).await.unwrap()
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) token: String,
    pub(crate) project: String,
    catalog: Value,
}

/// A response with its body as JSON, or as a string if it is not JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or_default()
    }
}

/// An HTTP client that follows no redirects and shares no connections with other tests.
pub(crate) fn http() -> reqwest::Client {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .unwrap()
}

pub(crate) fn password_login(user: &str, password: &str) -> Value {
    json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": { "name": user, "domain": { "id": "default" }, "password": password } } },
        "scope": { "project": { "name": user, "domain": { "id": "default" } } } } })
}

impl Client {
    pub(crate) async fn login(world: &World, user: &str) -> Self {
        Self::login_with(world, &password_login(user, "nfvtest"))
            .await
            .unwrap()
    }

    pub(crate) async fn login_with(world: &World, body: &Value) -> Result<Self, Answer> {
        let http = http();
        let answer = read(
            http.post(format!("{}/auth/tokens", world.endpoints().auth_url))
                .json(body),
        )
        .await
        .unwrap();
        if answer.status != 201 {
            return Err(answer);
        }
        let token = answer.headers["x-subject-token"]
            .to_str()
            .unwrap()
            .to_owned();
        let project = answer.body["token"]["project"]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        Ok(Self {
            http,
            token,
            project,
            catalog: answer.body["token"]["catalog"].clone(),
        })
    }

    pub(crate) fn url(&self, service: &str) -> &str {
        let found = self
            .catalog
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["type"] == service)
            .unwrap();
        let public = found["endpoints"]
            .as_array()
            .unwrap()
            .iter()
            .find(|e| e["interface"] == "public")
            .unwrap();
        public["url"].as_str().unwrap()
    }

    /// One request; `Err` if the connection is cut.
    pub(crate) async fn ask(
        &self,
        method: Method,
        (service, path): (&str, &str),
        body: Option<&Value>,
    ) -> Result<Answer, reqwest::Error> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url(service)))
            .header("x-auth-token", &self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        read(request).await
    }

    pub(crate) async fn get(&self, service: &str, path: &str) -> Answer {
        self.ask(Method::GET, (service, path), None).await.unwrap()
    }

    pub(crate) async fn create(&self, name: &str, template: &Value, more: Value) -> Answer {
        let mut body = json!({ "stack_name": name, "template": template });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.ask(Method::POST, ("orchestration", "/stacks"), Some(&body))
            .await
            .unwrap()
    }

    /// Creates a stack and waits until it leaves `IN_PROGRESS`.
    pub(crate) async fn stack(&self, name: &str, template: &Value, more: Value) -> Value {
        let created = self.create(name, template, more).await;
        assert_eq!(created.status, 201, "{}", created.body);
        self.settled(name, created.body["stack"]["id"].as_str().unwrap())
            .await
    }

    /// Waits until a stack leaves `IN_PROGRESS`.
    pub(crate) async fn settled(&self, name: &str, id: &str) -> Value {
        let path = format!("/stacks/{name}/{id}");
        until("the stack is settled", || async {
            let stack = self.get("orchestration", &path).await.body["stack"].clone();
            (!stack["stack_status"].as_str()?.ends_with("IN_PROGRESS")).then_some(stack)
        })
        .await
    }

    pub(crate) async fn delete(&self, stack: &Value) {
        let (name, id) = (
            stack["stack_name"].as_str().unwrap(),
            stack["id"].as_str().unwrap(),
        );
        let deleted = self
            .ask(
                Method::DELETE,
                ("orchestration", &format!("/stacks/{name}/{id}")),
                None,
            )
            .await
            .unwrap();
        assert_eq!(deleted.status, 204);
        assert_eq!(
            self.settled(name, id).await["stack_status"],
            "DELETE_COMPLETE"
        );
    }
}

pub(crate) async fn read(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    let response = request.send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await?;
    Ok(Answer {
        status,
        headers,
        body: serde_json::from_str(&text).unwrap_or(Value::String(text)),
    })
}

/// Polls until there is a value; fails after ten seconds.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    condition: &str,
    mut ask: impl FnMut() -> F,
) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "waited too long until {condition}"
        );
        tokio::task::yield_now().await;
    }
}

/// One master and two workers on the shared network, as VNF-A has them.
pub(crate) fn three_servers() -> Value {
    let mut resources = serde_json::Map::new();
    let mut outputs = serde_json::Map::new();
    for name in ["master", "worker0", "worker1"] {
        resources.insert(
            format!("{name}_port"),
            json!({ "type": "OS::Neutron::Port", "properties": { "network": "provider" } }),
        );
        let networks = json!([{ "port": { "get_resource": format!("{name}_port") } }]);
        let properties = json!({ "name": name, "image": "nfv-image", "flavor": "m1.tiny", "networks": networks });
        resources.insert(
            name.into(),
            json!({ "type": "OS::Nova::Server", "properties": properties }),
        );
        outputs.insert(format!("{name}_ip"), json!({ "value": { "get_attr": [format!("{name}_port"), "fixed_ips", 0, "ip_address"] } }));
    }
    json!({ "heat_template_version": "2018-08-31", "resources": resources, "outputs": outputs })
}
