//! Subscriptions to lifecycle changes (SOL003 5.4.18, 5.4.19): who is told, and of what.
//!
//! ```text
//!  subscribe ── what cannot be served is refused ── the callback is asked ── the same one again? that one ── stored
//! ```

use crate::engine::Engine;
use crate::ports::{
    About, Callback, Change, OutboxRow, SecretJson, Subscribers, SubscriptionRecord,
};
use crate::query::{Query, Sight};
use crate::refusal::{self, Refusal, Why};
use serde::de::DeserializeOwned;
use serde_json::Value;
use vnfm_types::LifecycleNotification::{self, VnfLcmOperationOccurrenceNotification};
use vnfm_types::{
    AuthType, LccnSubscription, LccnSubscriptionRequest, LcmOperationState, LcmOperationType,
    LifecycleChangeNotificationsFilter, SubscriptionAuthentication, VnfInstanceSubscriptionFilter,
    VnfProductsFromProvider,
};

/// What became of a request for a subscription.
#[derive(Debug)]
pub enum Subscribed {
    /// It is there now.
    New(Box<SubscriptionRecord>),
    /// One that says the same was there; this is its id.
    Known(String),
}

impl Engine {
    /// Subscribes a callback, once it was asked whether it takes notifications. `root` is where this server is for
    /// the subscriber, with `/vnflcm/v1` behind it for one that wants to be told in the form of that version; `sight`
    /// is what of the tenant's whoever subscribes sees.
    ///
    /// # Errors
    ///
    /// `Unprocessable` where the filter contradicts itself, the login is one that we cannot do, or the callback does
    /// not answer as it should.
    pub async fn subscribe(
        &self,
        tenant: &str,
        request: LccnSubscriptionRequest,
        (root, sight): (&str, &Sight),
        subscribers: &dyn Subscribers,
    ) -> Result<Subscribed, Refusal> {
        if let Some(filter) = &request.filter {
            consistent(filter)?;
        }
        if let Some(login) = &request.authentication {
            possible(login, subscribers.has_certificate())?;
        }
        let login = request.authentication.as_ref();
        let record = SubscriptionRecord {
            tenant: tenant.to_owned(),
            authentication: SecretJson::from(serde_json::to_value(login).unwrap_or_default()),
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
            sight: sight.clone(),
        };
        if let Some(id) = self.known(&record).await? {
            return Ok(Subscribed::Known(id));
        }
        let callback = Callback {
            uri: &request.callback_uri,
            login,
            edition: record.edition(),
        };
        subscribers.test(&callback).await.map_err(|error| {
            let what = format!("callbackUri: {error}");
            Refusal::new(Why::Unprocessable, &refusal::CALLBACK, what).hint(error.next())
        })?;
        let add = Change::AddSubscription(Box::new(record.clone()));
        self.store().write(None, vec![add]).await?;
        Ok(Subscribed::New(Box::new(record)))
    }

    /// The one that says the same already, to the same callback in the same version.
    async fn known(&self, new: &SubscriptionRecord) -> Result<Option<String>, Refusal> {
        let wanted = &new.subscription;
        let same = Query::only("callbackUri", wanted.callback_uri.clone());
        let same = Query {
            sight: new.sight.clone(),
            ..same
        };
        let known = self.store().subscriptions(&new.tenant, &same).await?;
        let says_the_same = |known: &SubscriptionRecord| {
            let (is, edition) = (&known.subscription, known.edition());
            is.filter == wanted.filter
                && is.verbosity == wanted.verbosity
                && edition == new.edition()
                && known.sight == new.sight
        };
        Ok(known
            .into_iter()
            .find(says_the_same)
            .map(|known| known.subscription.id))
    }

    /// Ends a subscription; what was not sent yet is not sent any more.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub async fn unsubscribe(&self, tenant: &str, id: &str) -> Result<(), Refusal> {
        let gone = Change::RemoveSubscription {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
        };
        Ok(self.store().write(None, vec![gone]).await?)
    }
}

/// A filter by operations is one of notifications of operations.
fn consistent(filter: &LifecycleChangeNotificationsFilter) -> Result<(), Refusal> {
    let by_operation = !filter.operation_types.is_empty() || !filter.operation_states.is_empty();
    if !by_operation
        || filter
            .notification_types
            .contains(&VnfLcmOperationOccurrenceNotification)
    {
        return Ok(());
    }
    let what = "filter.operationTypes and filter.operationStates choose among notifications of type \
                `VnfLcmOperationOccurrenceNotification`, which filter.notificationTypes does not name";
    Err(Refusal::new(
        Why::Unprocessable,
        &refusal::BAD_SUBSCRIPTION,
        what,
    ))
}

/// One of the ways that a subscriber takes is one that we can go, with what is needed for it.
fn possible(login: &SubscriptionAuthentication, certificate: bool) -> Result<(), Refusal> {
    let mut wanting = Vec::new();
    for way in &login.auth_type {
        let wants = match way {
            AuthType::Basic if login.params_basic.is_none() => "BASIC needs paramsBasic",
            AuthType::Oauth2ClientCredentials
                if login.params_oauth2_client_credentials.is_none() =>
            {
                "OAUTH2_CLIENT_CREDENTIALS needs paramsOauth2ClientCredentials"
            }
            AuthType::TlsCert if !certificate => {
                "TLS_CERT needs a certificate of ours, `notifications.certificate` of the configuration"
            }
            _ => return Ok(()),
        };
        wanting.push(wants);
    }
    let what = if wanting.is_empty() {
        "it names no way".to_owned()
    } else {
        wanting.join("; ")
    };
    let what = format!("authentication.authType names no way that we can go: {what}");
    Err(Refusal::new(
        Why::Unprocessable,
        &refusal::BAD_SUBSCRIPTION,
        what,
    ))
}

/// Whether a subscription wants a notification.
pub(crate) fn wants(subscription: &LccnSubscription, row: &OutboxRow) -> bool {
    let Some(filter) = &subscription.filter else {
        return true;
    };
    let kind = read::<LifecycleNotification>(&Value::from(row.kind.as_str()));
    let of_kind = kind.is_some_and(|kind| is_among(&filter.notification_types, &kind));
    of_kind
        && (kind != Some(VnfLcmOperationOccurrenceNotification) || of_operation(filter, row))
        && filter
            .vnf_instance_subscription_filter
            .as_ref()
            .is_none_or(|filter| of_instance(filter, row))
}

/// Whether `one` is among those that are wanted; where none is named, all are.
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
    let About {
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

fn of_product(of: &VnfProductsFromProvider, about: &About) -> bool {
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
    use super::{consistent, possible, wants};
    use crate::ports::{About, OutboxRow};
    use serde_json::{Value, json};
    use vnfm_types::LccnSubscription;

    fn row(kind: &str) -> OutboxRow {
        OutboxRow {
            seq: 1,
            tenant: "default".into(),
            instance_id: "i".into(),
            kind: kind.into(),
            body: json!({"operation": "HEAL", "operationState": "PROCESSING"}),
            about: About {
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
    fn every_attribute_of_a_filter_chooses() {
        let op = "VnfLcmOperationOccurrenceNotification";
        let made = "VnfIdentifierCreationNotification";
        let of = |filter: Value| json!({"vnfInstanceSubscriptionFilter": filter});
        let product = |versions: Value| {
            of(
                json!({"vnfProductsFromProviders": [{"vnfProvider": "p", "vnfProducts": [
                {"vnfProductName": "n", "versions": versions}]}]}),
            )
        };
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
            (of(json!({"vnfdIds": ["x", "d"]})), op, true),
            (of(json!({"vnfdIds": ["x"]})), made, false),
            (of(json!({"vnfInstanceIds": ["i"]})), op, true),
            (of(json!({"vnfInstanceIds": ["j"]})), op, false),
            (of(json!({"vnfInstanceNames": ["web"]})), op, true),
            (of(json!({"vnfInstanceNames": ["db"]})), op, false),
            (
                of(json!({"vnfdIds": ["d"], "vnfInstanceNames": ["db"]})),
                op,
                false,
            ),
            (
                of(json!({"vnfProductsFromProviders": [{"vnfProvider": "p"}]})),
                op,
                true,
            ),
            (
                of(json!({"vnfProductsFromProviders": [{"vnfProvider": "q"}]})),
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
    fn what_cannot_be_served_is_refused() {
        let filter = json!({"notificationTypes": ["VnfIdentifierCreationNotification"], "operationTypes": ["HEAL"]});
        let refusal = consistent(&serde_json::from_value(filter).unwrap()).unwrap_err();
        assert!(refusal.detail.contains("operationTypes"), "{refusal}");
        let basic = json!({"userName": "u", "password": "p"});
        let oauth2 = json!({"clientId": "c", "clientPassword": "p", "tokenEndpoint": "t"});
        let read = |login: serde_json::Value| serde_json::from_value(login).unwrap();
        for (login, word) in [
            (json!({"authType": []}), "names no way"),
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
            let refusal = possible(&read(login), false).unwrap_err();
            assert!(refusal.detail.contains(word), "{refusal}");
        }
        let one = json!({"authType": ["TLS_CERT", "BASIC"], "paramsBasic": basic});
        assert!(possible(&read(one), false).is_ok());
        let token = json!({"authType": ["OAUTH2_CLIENT_CREDENTIALS"], "paramsOauth2ClientCredentials": oauth2});
        assert!(possible(&read(token), false).is_ok());
        assert!(possible(&read(json!({"authType": ["TLS_CERT"]})), true).is_ok());
    }
}
