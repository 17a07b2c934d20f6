//! Subscriptions to lifecycle changes (SOL003 5.4.18, 5.4.19): creation, deletion and filters.
//!
//! ```text
//! subscribe ── filter and login checked ── callback tested ── identical one exists? return its id ── stored
//! ```

use crate::engine::Engine;
use crate::json::to_json;
use crate::ports::{
    Callback, Change, EventScope, OutboxRow, SecretJson, Subscribers, SubscriptionRecord,
};
use crate::query::{Query, VisibilityScope};
use crate::refusal::{self, Refusal, Why};
use serde::de::DeserializeOwned;
use serde_json::Value;
use vnfm_types::LifecycleNotification::{self, VnfLcmOperationOccurrenceNotification};
use vnfm_types::{
    AuthType, LccnSubscription, LccnSubscriptionRequest, LcmOperationState, LcmOperationType,
    LifecycleChangeNotificationsFilter, SubscriptionAuthentication, VnfInstanceSubscriptionFilter,
    VnfProductsFromProvider,
};

/// Result of a subscription request.
#[derive(Debug)]
pub enum SubscribeOutcome {
    /// A new subscription was created.
    New(Box<SubscriptionRecord>),
    /// An identical one existed; its id.
    Known(String),
}

impl Engine {
    /// Creates a subscription after a test of its callback. `root` is this server's base URL for the subscriber, with
    /// `/vnflcm/v1` appended if it subscribed to that version; `sight` is the caller's visibility scope.
    ///
    /// # Errors
    ///
    /// `Unprocessable` if the filter contradicts itself, the login method is not supported,
    /// or the callback responds incorrectly.
    pub async fn subscribe(
        &self,
        tenant: &str,
        request: LccnSubscriptionRequest,
        (root, sight): (&str, &VisibilityScope),
        subscribers: &dyn Subscribers,
    ) -> Result<SubscribeOutcome, Refusal> {
        if let Some(filter) = &request.filter {
            check_filter(filter)?;
        }
        if let Some(login) = &request.authentication {
            check_login(login, subscribers.has_certificate())?;
        }
        let login = request.authentication.as_ref();
        let stored_login = to_json("the login at the callback", &login)?;
        let record = SubscriptionRecord {
            tenant: tenant.to_owned(),
            authentication: SecretJson::from(stored_login),
            subscription: LccnSubscription {
                id: uuid::Uuid::new_v4().to_string(),
                filter: request.filter.clone(),
                callback_uri: request.callback_uri.clone(),
                verbosity: request.verbosity,
                links: None,
            },
            root: root.to_owned(),
            sent: 0,
            lost: 0,
            scope: sight.clone(),
        };
        if let Some(id) = self.known(&record).await? {
            return Ok(SubscribeOutcome::Known(id));
        }
        let callback = Callback {
            uri: &request.callback_uri,
            login,
            api_version: record.api_version(),
        };
        subscribers.test(&callback).await.map_err(|error| {
            let what = format!("callbackUri: {error}");
            Refusal::new(Why::Unprocessable, &refusal::CALLBACK, what).hint(error.next())
        })?;
        let add = Change::AddSubscription(Box::new(record.clone()));
        self.store().write(None, vec![add]).await?;
        Ok(SubscribeOutcome::New(Box::new(record)))
    }

    /// The id of an identical subscription: same callback, filter, version and scope.
    async fn known(&self, new: &SubscriptionRecord) -> Result<Option<String>, Refusal> {
        let wanted = &new.subscription;
        let same = Query::only("callbackUri", wanted.callback_uri.clone());
        let same = Query {
            scope: new.scope.clone(),
            ..same
        };
        let known = self.store().subscriptions(&new.tenant, &same).await?;
        let is_identical = |known: &SubscriptionRecord| {
            let (is, edition) = (&known.subscription, known.api_version());
            is.filter == wanted.filter
                && is.verbosity == wanted.verbosity
                && edition == new.api_version()
                && known.scope == new.scope
        };
        Ok(known
            .into_iter()
            .find(is_identical)
            .map(|known| known.subscription.id))
    }

    /// Deletes a subscription; its pending notifications are not sent.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tenant has no such subscription.
    pub async fn unsubscribe(&self, tenant: &str, id: &str) -> Result<(), Refusal> {
        let remove = Change::RemoveSubscription {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
        };
        Ok(self.store().write(None, vec![remove]).await?)
    }
}

/// A filter by operation requires notifications about operations.
fn check_filter(filter: &LifecycleChangeNotificationsFilter) -> Result<(), Refusal> {
    let by_operation = !filter.operation_types.is_empty() || !filter.operation_states.is_empty();
    if !by_operation
        || filter
            .notification_types
            .contains(&VnfLcmOperationOccurrenceNotification)
    {
        return Ok(());
    }
    let what = "filter.operationTypes and filter.operationStates select among notifications of type \
                `VnfLcmOperationOccurrenceNotification`, which filter.notificationTypes does not include";
    Err(Refusal::new(
        Why::Unprocessable,
        &refusal::BAD_SUBSCRIPTION,
        what,
    ))
}

/// At least one of the offered login methods must be supported and complete.
fn check_login(login: &SubscriptionAuthentication, certificate: bool) -> Result<(), Refusal> {
    let mut problems = Vec::new();
    for method in &login.auth_type {
        let wants = match method {
            AuthType::Basic if login.params_basic.is_none() => "BASIC needs paramsBasic",
            AuthType::Oauth2ClientCredentials
                if login.params_oauth2_client_credentials.is_none() =>
            {
                "OAUTH2_CLIENT_CREDENTIALS needs paramsOauth2ClientCredentials"
            }
            AuthType::TlsCert if !certificate => {
                "TLS_CERT needs a client certificate: `notifications.certificate` in the configuration"
            }
            _ => return Ok(()),
        };
        problems.push(wants);
    }
    let what = if problems.is_empty() {
        "the list is empty".to_owned()
    } else {
        problems.join("; ")
    };
    let what = format!("authentication.authType has no supported method: {what}");
    Err(Refusal::new(
        Why::Unprocessable,
        &refusal::BAD_SUBSCRIPTION,
        what,
    ))
}

/// Whether a notification matches a subscription's filter.
pub(crate) fn wants(subscription: &LccnSubscription, row: &OutboxRow) -> bool {
    // Events of our own are no notifications of SOL003.
    let Some(kind) = read::<LifecycleNotification>(&Value::from(row.kind.as_str())) else {
        return false;
    };
    let Some(filter) = &subscription.filter else {
        return true;
    };
    is_among(&filter.notification_types, &kind)
        && (kind != VnfLcmOperationOccurrenceNotification || of_operation(filter, row))
        && filter
            .vnf_instance_subscription_filter
            .as_ref()
            .is_none_or(|filter| of_instance(filter, row))
}

/// An empty list matches everything.
fn is_among<T: PartialEq>(wanted: &[T], one: &T) -> bool {
    wanted.is_empty() || wanted.contains(one)
}

fn of_operation(filter: &LifecycleChangeNotificationsFilter, row: &OutboxRow) -> bool {
    let operation = read::<LcmOperationType>(&row.body["operation"]);
    let state = read::<LcmOperationState>(&row.body["operationState"]);
    operation.is_some_and(|operation| is_among(&filter.operation_types, &operation))
        && state.is_some_and(|state| is_among(&filter.operation_states, &state))
}

fn of_instance(filter: &VnfInstanceSubscriptionFilter, row: &OutboxRow) -> bool {
    let EventScope {
        vnfd_id,
        vnf_instance_name,
        ..
    } = &row.about;
    let names = &filter.vnf_instance_names;
    let products = &filter.vnf_products_from_providers;
    is_among(&filter.vnfd_ids, vnfd_id)
        && is_among(&filter.vnf_instance_ids, &row.instance_id)
        && (names.is_empty()
            || vnf_instance_name
                .as_ref()
                .is_some_and(|name| names.contains(name)))
        && (products.is_empty() || products.iter().any(|of| of_product(of, &row.about)))
}

fn of_product(of: &VnfProductsFromProvider, about: &EventScope) -> bool {
    let of_version = |versions: &vnfm_types::VnfVersions| {
        versions.vnf_software_version == about.vnf_software_version
            && is_among(&versions.vnfd_versions, &about.vnfd_version)
    };
    let of_products = |product: &vnfm_types::VnfProduct| {
        product.vnf_product_name == about.vnf_product_name
            && (product.versions.is_empty() || product.versions.iter().any(of_version))
    };
    of.vnf_provider == about.vnf_provider
        && (of.vnf_products.is_empty() || of.vnf_products.iter().any(of_products))
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::{check_filter, check_login, wants};
    use crate::ports::{EventScope, OutboxRow};
    use serde_json::{Value, json};
    use vnfm_types::LccnSubscription;

    fn row(kind: &str) -> OutboxRow {
        OutboxRow {
            seq: 1,
            tenant: "default".into(),
            instance_id: "i".into(),
            kind: kind.into(),
            body: json!({"operation": "HEAL", "operationState": "PROCESSING"}),
            about: EventScope {
                vnfd_id: "d".into(),
                vnf_instance_name: Some("web".into()),
                vnf_provider: "p".into(),
                vnf_product_name: "n".into(),
                vnf_software_version: "1".into(),
                vnfd_version: "2".into(),
                lives: None,
            },
            at: "2026-03-04T05:06:07Z".parse().unwrap(),
        }
    }

    fn wanted(filter: &Value, kind: &str) -> bool {
        let subscription =
            json!({"id": "s", "callbackUri": "u", "verbosity": "FULL", "filter": filter});
        let subscription: LccnSubscription = serde_json::from_value(subscription).unwrap();
        wants(&subscription, &row(kind))
    }

    #[test]
    fn a_filter_selects_by_type_operation_and_state() {
        let op = "VnfLcmOperationOccurrenceNotification";
        let made = "VnfIdentifierCreationNotification";
        for (filter, kind, is_wanted) in [
            (Value::Null, op, true),
            (json!({}), made, true),
            (json!({"notificationTypes": [op]}), op, true),
            (json!({"notificationTypes": [op]}), made, false),
            (
                json!({"notificationTypes": [op, made], "operationTypes": ["HEAL"]}),
                op,
                true,
            ),
            (
                json!({"notificationTypes": [op, made], "operationTypes": ["TERMINATE"]}),
                op,
                false,
            ),
            (
                json!({"notificationTypes": [op, made], "operationTypes": ["TERMINATE"]}),
                made,
                true,
            ),
            (
                json!({"notificationTypes": [op], "operationStates": ["PROCESSING"]}),
                op,
                true,
            ),
            (
                json!({"notificationTypes": [op], "operationStates": ["FAILED"]}),
                op,
                false,
            ),
        ] {
            assert_eq!(wanted(&filter, kind), is_wanted, "{filter} {kind}");
        }
    }

    #[test]
    fn a_filter_selects_by_instance_and_product() {
        let op = "VnfLcmOperationOccurrenceNotification";
        let made = "VnfIdentifierCreationNotification";
        let with_filter = |filter: Value| json!({"vnfInstanceSubscriptionFilter": filter});
        let product = |versions: Value| {
            with_filter(
                json!({"vnfProductsFromProviders": [{"vnfProvider": "p", "vnfProducts": [
                {"vnfProductName": "n", "versions": versions}]}]}),
            )
        };
        for (filter, kind, is_wanted) in [
            (with_filter(json!({"vnfdIds": ["x", "d"]})), op, true),
            (with_filter(json!({"vnfdIds": ["x"]})), made, false),
            (with_filter(json!({"vnfInstanceIds": ["i"]})), op, true),
            (with_filter(json!({"vnfInstanceIds": ["j"]})), op, false),
            (with_filter(json!({"vnfInstanceNames": ["web"]})), op, true),
            (with_filter(json!({"vnfInstanceNames": ["db"]})), op, false),
            (
                with_filter(json!({"vnfdIds": ["d"], "vnfInstanceNames": ["db"]})),
                op,
                false,
            ),
            (
                with_filter(json!({"vnfProductsFromProviders": [{"vnfProvider": "p"}]})),
                op,
                true,
            ),
            (
                with_filter(json!({"vnfProductsFromProviders": [{"vnfProvider": "q"}]})),
                op,
                false,
            ),
            (product(json!([])), op, true),
            (product(json!([{"vnfSoftwareVersion": "1"}])), op, true),
            (product(json!([{"vnfSoftwareVersion": "9"}])), op, false),
            (
                product(json!([{"vnfSoftwareVersion": "1", "vnfdVersions": ["2"]}])),
                op,
                true,
            ),
            (
                product(json!([{"vnfSoftwareVersion": "1", "vnfdVersions": ["3"]}])),
                op,
                false,
            ),
        ] {
            assert_eq!(wanted(&filter, kind), is_wanted, "{filter} {kind}");
        }
    }

    #[test]
    fn unsupported_subscriptions_are_refused() {
        let filter = json!({"notificationTypes": ["VnfIdentifierCreationNotification"], "operationTypes": ["HEAL"]});
        let refusal = check_filter(&serde_json::from_value(filter).unwrap()).unwrap_err();
        assert!(refusal.detail.contains("operationTypes"), "{refusal}");
        let basic = json!({"userName": "u", "password": "p"});
        let oauth2 = json!({"clientId": "c", "clientPassword": "p", "tokenEndpoint": "t"});
        let read = |login: serde_json::Value| serde_json::from_value(login).unwrap();
        for (login, word) in [
            (json!({"authType": []}), "no supported method"),
            (
                json!({"authType": ["TLS_CERT"]}),
                "notifications.certificate",
            ),
            (
                json!({"authType": ["BASIC"], "paramsOauth2ClientCredentials": oauth2}),
                "paramsBasic",
            ),
            (
                json!({"authType": ["OAUTH2_CLIENT_CREDENTIALS"], "paramsBasic": basic}),
                "paramsOauth2ClientCredentials",
            ),
        ] {
            let refusal = check_login(&read(login), false).unwrap_err();
            assert!(refusal.detail.contains(word), "{refusal}");
        }
        let one = json!({"authType": ["TLS_CERT", "BASIC"], "paramsBasic": basic});
        assert!(check_login(&read(one), false).is_ok());
        let token = json!({"authType": ["OAUTH2_CLIENT_CREDENTIALS"], "paramsOauth2ClientCredentials": oauth2});
        assert!(check_login(&read(token), false).is_ok());
        assert!(check_login(&read(json!({"authType": ["TLS_CERT"]})), true).is_ok());
    }
}
