//! Subscriptions to lifecycle changes (SOL003 5.5.2.15, 5.5.2.16, 5.5.3.12, 4.4.1.3) and what they choose.

use crate::{LcmOperationState, LcmOperationType, Link, Secret};
use serde::{Deserialize, Serialize};

/// Which notifications there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LifecycleNotification {
    /// An operation has entered a state.
    VnfLcmOperationOccurrenceNotification,
    /// An instance was made.
    VnfIdentifierCreationNotification,
    /// An instance is gone.
    VnfIdentifierDeletionNotification,
}

/// How much a notification of an operation says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LcmOpOccNotificationVerbosity {
    /// Also what was changed.
    #[default]
    Full,
    /// Not what was changed: the occurrence says it.
    Short,
}

/// `LccnSubscriptionRequest` (5.5.2.15).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LccnSubscriptionRequest {
    /// What is wanted; everything where absent.
    #[serde(default)]
    pub filter: Option<LifecycleChangeNotificationsFilter>,
    /// Where notifications go.
    pub callback_uri: String,
    /// How we log in there.
    #[serde(default)]
    pub authentication: Option<SubscriptionAuthentication>,
    /// How much is told.
    #[serde(default)]
    pub verbosity: LcmOpOccNotificationVerbosity,
}

/// `LccnSubscription` (5.5.2.16). How we log in there is not shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LccnSubscription {
    /// Identifier.
    pub id: String,
    /// What is wanted; everything where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<LifecycleChangeNotificationsFilter>,
    /// Where notifications go.
    pub callback_uri: String,
    /// How much is told.
    pub verbosity: LcmOpOccNotificationVerbosity,
    /// Links; made when it is shown.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<LccnSubscriptionLinks>,
}

/// `_links` of [`LccnSubscription`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LccnSubscriptionLinks {
    /// This subscription.
    #[serde(rename = "self")]
    pub this: Link,
}

/// `LifecycleChangeNotificationsFilter` (5.5.3.12): what is there has to hold, of a list any entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LifecycleChangeNotificationsFilter {
    /// Which instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_instance_subscription_filter: Option<VnfInstanceSubscriptionFilter>,
    /// Which notifications.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notification_types: Vec<LifecycleNotification>,
    /// Of which operations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operation_types: Vec<LcmOperationType>,
    /// Of which of their states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operation_states: Vec<LcmOperationState>,
}

/// `VnfInstanceSubscriptionFilter` (4.4.1.5).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct VnfInstanceSubscriptionFilter {
    /// Of these VNFDs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vnfd_ids: Vec<String>,
    /// Of these products.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vnf_products_from_providers: Vec<VnfProductsFromProvider>,
    /// These.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vnf_instance_ids: Vec<String>,
    /// Of these names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vnf_instance_names: Vec<String>,
}

/// Products of a provider; all of them where none is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VnfProductsFromProvider {
    /// The provider.
    pub vnf_provider: String,
    /// Its products.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnf_products: Vec<VnfProduct>,
}

/// Versions of a product; all of them where none is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VnfProduct {
    /// The product.
    pub vnf_product_name: String,
    /// Its versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VnfVersions>,
}

/// Versions of the software, and of the VNFD; all of the latter where none is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VnfVersions {
    /// Of the software.
    pub vnf_software_version: String,
    /// Of the VNFD.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfd_versions: Vec<String>,
}

/// `SubscriptionAuthentication` (SOL013 8.3.4). It holds secrets: sealed when accepted, never returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscriptionAuthentication {
    /// Which ways the subscriber takes.
    pub auth_type: Vec<AuthType>,
    /// For [`AuthType::Basic`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params_basic: Option<ParamsBasic>,
    /// For [`AuthType::Oauth2ClientCredentials`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params_oauth2_client_credentials: Option<ParamsOauth2ClientCredentials>,
}

/// A way to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AuthType {
    /// User and password with every request.
    Basic,
    /// A token of a token endpoint.
    #[serde(rename = "OAUTH2_CLIENT_CREDENTIALS")]
    Oauth2ClientCredentials,
    /// A certificate of ours.
    TlsCert,
}

/// `paramsBasic`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParamsBasic {
    /// The user.
    pub user_name: String,
    /// Its password.
    pub password: Secret,
}

/// `paramsOauth2ClientCredentials`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParamsOauth2ClientCredentials {
    /// The client.
    pub client_id: String,
    /// Its password.
    pub client_password: Secret,
    /// Who gives tokens.
    pub token_endpoint: String,
}
