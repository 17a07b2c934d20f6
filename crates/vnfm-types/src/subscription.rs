//! Subscriptions to lifecycle changes (SOL003 5.5.2.15, 5.5.2.16, 5.5.3.12, 4.4.1.3) and their filters.

use crate::{LcmOperationState, LcmOperationType, Link, Secret};
use serde::{Deserialize, Serialize};

/// `notificationType` of lifecycle notifications: the type names of SOL003.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LifecycleNotification {
    /// An operation entered a state.
    VnfLcmOperationOccurrenceNotification,
    /// A VNF instance was created.
    VnfIdentifierCreationNotification,
    /// A VNF instance was deleted.
    VnfIdentifierDeletionNotification,
}

/// How detailed a notification about an operation is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LcmOpOccNotificationVerbosity {
    /// Includes the changed resources and attributes.
    #[default]
    Full,
    /// Omits them; the client reads the occurrence.
    Short,
}

/// `LccnSubscriptionRequest` (5.5.2.15): which notifications go to which URI.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LccnSubscriptionRequest {
    /// Which notifications to send; absent: all.
    #[serde(default)]
    pub filter: Option<LifecycleChangeNotificationsFilter>,
    /// URI that receives the notifications.
    pub callback_uri: String,
    /// How we log in at the callback.
    #[serde(default)]
    pub authentication: Option<SubscriptionAuthentication>,
    /// Level of detail of the notifications.
    #[serde(default)]
    pub verbosity: LcmOpOccNotificationVerbosity,
}

/// `LccnSubscription` (5.5.2.16). The callback's login is not shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LccnSubscription {
    /// Unique within this VNFM; a UUID.
    pub id: String,
    /// Which notifications to send; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<LifecycleChangeNotificationsFilter>,
    /// URI that receives the notifications.
    pub callback_uri: String,
    /// Level of detail of the notifications.
    pub verbosity: LcmOpOccNotificationVerbosity,
    /// Filled in when the resource is served.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<LccnSubscriptionLinks>,
}

/// `_links` of [`LccnSubscription`]: its own URI.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LccnSubscriptionLinks {
    /// URI of this subscription in the API.
    #[serde(rename = "self")]
    pub this: Link,
}

/// `LifecycleChangeNotificationsFilter` (5.5.3.12): all given members must match; of a list, any entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LifecycleChangeNotificationsFilter {
    /// Matches the instance that the notification is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_instance_subscription_filter: Option<VnfInstanceSubscriptionFilter>,
    /// Matches the type of the notification.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notification_types: Vec<LifecycleNotification>,
    /// Matches the type of the operation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operation_types: Vec<LcmOperationType>,
    /// Matches the state of the operation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operation_states: Vec<LcmOperationState>,
}

/// `VnfInstanceSubscriptionFilter` (4.4.1.5): which instances a subscription covers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct VnfInstanceSubscriptionFilter {
    /// Matches the `vnfdId` of the instance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vnfd_ids: Vec<String>,
    /// Provider, product and versions of the instance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vnf_products_from_providers: Vec<VnfProductsFromProvider>,
    /// Matches the `id` of the instance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vnf_instance_ids: Vec<String>,
    /// Matches the `vnfInstanceName` of the instance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vnf_instance_names: Vec<String>,
}

/// Products of a provider; all of them if the list is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VnfProductsFromProvider {
    /// Matches the `vnfProvider` of the VNFD.
    pub vnf_provider: String,
    /// Products of this provider; empty: all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnf_products: Vec<VnfProduct>,
}

/// Versions of a product; all of them if the list is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VnfProduct {
    /// Matches the `vnfProductName` of the VNFD.
    pub vnf_product_name: String,
    /// Versions of this product; empty: all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VnfVersions>,
}

/// A software version with VNFD versions; all of the latter if the list is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VnfVersions {
    /// Matches the `vnfSoftwareVersion` of the VNFD.
    pub vnf_software_version: String,
    /// Versions of the VNFD itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfd_versions: Vec<String>,
}

/// `SubscriptionAuthentication` (SOL013 8.3.4). Contains secrets: sealed when accepted, never returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscriptionAuthentication {
    /// Login methods that the subscriber accepts.
    pub auth_type: Vec<AuthType>,
    /// User and password; required for [`AuthType::Basic`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params_basic: Option<ParamsBasic>,
    /// Client and token endpoint; required for [`AuthType::Oauth2ClientCredentials`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params_oauth2_client_credentials: Option<ParamsOauth2ClientCredentials>,
}

/// A login method for callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AuthType {
    /// User and password with every request.
    Basic,
    /// Bearer token from a token endpoint.
    #[serde(rename = "OAUTH2_CLIENT_CREDENTIALS")]
    Oauth2ClientCredentials,
    /// The TLS client certificate of the VNFM.
    TlsCert,
}

/// `paramsBasic`: user and password for HTTP basic authentication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParamsBasic {
    /// User name of the VNFM.
    pub user_name: String,
    /// Password of that user; no response contains it.
    pub password: Secret,
}

/// `paramsOauth2ClientCredentials`: the client and where it gets its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParamsOauth2ClientCredentials {
    /// Client id of the VNFM.
    pub client_id: String,
    /// Client secret of that client; no response contains it.
    pub client_password: Secret,
    /// URI of the token endpoint.
    pub token_endpoint: String,
}
