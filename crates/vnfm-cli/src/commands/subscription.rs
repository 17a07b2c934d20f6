//! `vnfmctl subscription …`

use crate::args::{Subscription, Telling};
use crate::client::{Client, Outcome, read, segment};
use crate::commands::vnf;
use crate::output::{Column, Output};
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

const SUBSCRIPTIONS: &str = "/vnflcm/v2/subscriptions";
const COLUMNS: &[Column] = &[
    ("id", "/id"),
    ("callback", "/callbackUri"),
    ("verbosity", "/verbosity"),
    ("types", "/filter/notificationTypes"),
    ("operations", "/filter/operationTypes"),
    ("states", "/filter/operationStates"),
];
/// What one has beside the columns of the list.
const INSTANCES: Column = ("instances", "/filter/vnfInstanceSubscriptionFilter");
/// What operations are told by.
const OF_OPERATIONS: &str = "VnfLcmOperationOccurrenceNotification";

pub(super) async fn run(client: &Client, output: Output, command: Subscription) -> Outcome<()> {
    match command {
        Subscription::Create(telling) => create(client, output, telling).await,
        Subscription::List(wanted) => {
            let all = client.listing(SUBSCRIPTIONS, &wanted, "").await?;
            output.chosen(&all, COLUMNS, wanted.fields.as_deref())
        }
        Subscription::Show { subscription } => {
            let found: Value = client.get(&at(&subscription)).await?;
            output.one(&found, &[COLUMNS, &[INSTANCES]].concat())
        }
        Subscription::Delete { subscription } => {
            client
                .send(client.request(Method::DELETE, &at(&subscription)))
                .await?;
            output.done(
                &format!("deleted subscription {subscription}"),
                &json!({"id": subscription}),
            )
        }
    }
}

fn at(subscription: &str) -> String {
    format!("{SUBSCRIPTIONS}/{}", segment(subscription))
}

async fn create(client: &Client, output: Output, telling: Telling) -> Outcome<()> {
    let login = telling.user.as_deref().map(basic).transpose()?;
    let callback = telling.callback.clone();
    let verbosity = if telling.short { "SHORT" } else { "FULL" };
    let mut body = json!({"callbackUri": callback, "verbosity": verbosity});
    if let Some(filter) = filter(client, telling).await? {
        body["filter"] = filter;
    }
    if let Some(login) = login {
        body["authentication"] = login;
    }
    let request = client.request(Method::POST, SUBSCRIPTIONS).json(&body);
    // One that says the same is answered with a redirection to it, which is followed.
    let response = client.send(request).await?;
    let is_new = response.status() == StatusCode::CREATED;
    let shown: Value = read(response).await?;
    let id = shown["id"].as_str().unwrap_or_default();
    let sentence = if is_new {
        format!("subscribed {callback} as {id}")
    } else {
        format!("{callback} is subscribed to the same already, as {id}")
    };
    output.done(&sentence, &shown)
}

/// A login by name and password.
fn basic(user: &str) -> Outcome<Value> {
    let login = json!({"userName": user, "password": super::secret()?});
    Ok(json!({"authType": ["BASIC"], "paramsBasic": login}))
}

/// What is chosen, if anything is.
async fn filter(client: &Client, telling: Telling) -> Outcome<Option<Value>> {
    let Telling {
        mut types,
        operations,
        states,
        vnfs,
        vnfds,
        ..
    } = telling;
    if types.is_empty() && !(operations.is_empty() && states.is_empty()) {
        types.push(OF_OPERATIONS.to_owned());
    }
    let mut ids = Vec::new();
    for vnf in &vnfs {
        let found = vnf::find(client, vnf).await?;
        ids.extend(found["id"].as_str().map(str::to_owned));
    }
    let instances = members([("vnfInstanceIds", ids), ("vnfdIds", vnfds)]);
    let mut filter = members([
        ("notificationTypes", types),
        ("operationTypes", operations),
        ("operationStates", states),
    ]);
    if !instances.is_empty() {
        filter.insert(
            "vnfInstanceSubscriptionFilter".to_owned(),
            Value::Object(instances),
        );
    }
    Ok(Some(filter)
        .filter(|filter| !filter.is_empty())
        .map(Value::Object))
}

/// The lists that hold anything.
fn members<const N: usize>(lists: [(&str, Vec<String>); N]) -> Map<String, Value> {
    let filled = lists.into_iter().filter(|(_, list)| !list.is_empty());
    filled
        .map(|(name, list)| (name.to_owned(), list.into()))
        .collect()
}
