//! `vnfmctl subscription …`: subscriptions to lifecycle notifications.

use crate::args::{NewSubscription, Subscription};
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
/// Shown by `show` in addition to the columns of the list.
const INSTANCES: Column = ("instances", "/filter/vnfInstanceSubscriptionFilter");
/// The notification type of operation state changes.
const OPERATION_NOTIFICATION: &str = "VnfLcmOperationOccurrenceNotification";

pub(super) async fn run(client: &Client, output: Output, command: Subscription) -> Outcome<()> {
    match command {
        Subscription::Create(new) => create(client, output, new).await,
        Subscription::List(options) => {
            let all = client.listing(SUBSCRIPTIONS, &options, "").await?;
            output.chosen(&all, COLUMNS, options.fields.as_deref())
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

async fn create(client: &Client, output: Output, new: NewSubscription) -> Outcome<()> {
    let login = new.user.as_deref().map(basic_login).transpose()?;
    let callback = new.callback.clone();
    let verbosity = if new.short { "SHORT" } else { "FULL" };
    let mut body = json!({"callbackUri": callback, "verbosity": verbosity});
    if let Some(filter) = filter(client, new).await? {
        body["filter"] = filter;
    }
    if let Some(login) = login {
        body["authentication"] = login;
    }
    let request = client.request(Method::POST, SUBSCRIPTIONS).json(&body);
    // For an identical subscription the server redirects to it, which the client follows.
    let response = client.send(request).await?;
    let is_new = response.status() == StatusCode::CREATED;
    let created: Value = read(response).await?;
    let id = created["id"].as_str().unwrap_or_default();
    let sentence = if is_new {
        format!("subscribed {callback} as {id}")
    } else {
        format!("{callback} already has an identical subscription, {id}")
    };
    output.done(&sentence, &created)
}

/// An HTTP Basic login; the password is read from standard input.
fn basic_login(user: &str) -> Outcome<Value> {
    let login = json!({"userName": user, "password": super::secret_input::read_secret()?});
    Ok(json!({"authType": ["BASIC"], "paramsBasic": login}))
}

/// The filter of a subscription, unless it is empty.
async fn filter(client: &Client, new: NewSubscription) -> Outcome<Option<Value>> {
    let NewSubscription {
        mut types,
        operations,
        states,
        vnfs,
        vnfds,
        ..
    } = new;
    if types.is_empty() && !(operations.is_empty() && states.is_empty()) {
        types.push(OPERATION_NOTIFICATION.to_owned());
    }
    let mut ids = Vec::new();
    for vnf in &vnfs {
        let found = vnf::find(client, vnf).await?;
        ids.extend(found["id"].as_str().map(str::to_owned));
    }
    let instances = non_empty([("vnfInstanceIds", ids), ("vnfdIds", vnfds)]);
    let mut filter = non_empty([
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

/// The lists that are not empty, as members of an object.
fn non_empty<const N: usize>(lists: [(&str, Vec<String>); N]) -> Map<String, Value> {
    let filled = lists.into_iter().filter(|(_, list)| !list.is_empty());
    filled
        .map(|(name, list)| (name.to_owned(), list.into()))
        .collect()
}
