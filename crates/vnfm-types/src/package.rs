//! `VnfPkgInfo` (SOL005 9.5.2.5), as far as onboarding by upload needs it.

use crate::{KeyValuePairs, Link, ProblemDetails};
use serde::{Deserialize, Serialize};

/// How a package is signed (SOL004 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PackageSecurityOption {
    /// The manifest is signed, and states the hashes of the files.
    #[serde(rename = "OPTION_1")]
    Option1,
    /// The package is signed as a whole, in an outer archive.
    #[serde(rename = "OPTION_2")]
    Option2,
}

/// `PackageOnboardingStateType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PackageOnboardingState {
    /// The record exists, content was not uploaded yet.
    Created,
    /// Content is coming in.
    Uploading,
    /// Content is being read and checked.
    Processing,
    /// Ready to be used.
    Onboarded,
    /// Refused; `onboardingFailureDetails` says why.
    Error,
}

/// `PackageOperationalStateType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PackageOperationalState {
    /// May be used for new instances.
    Enabled,
    /// May not.
    Disabled,
}

/// `PackageUsageStateType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PackageUsageState {
    /// Some instance was made from it.
    InUse,
    /// None.
    NotInUse,
}

/// `Checksum` (SOL003 10.5.3.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    /// Such as `SHA-256`.
    pub algorithm: String,
    /// In lower-case hexadecimal.
    pub hash: String,
}

/// `VnfPkgInfo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPkgInfo {
    /// Ours.
    pub id: String,
    /// `descriptor_id` of the VNFD; unique per tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfd_id: Option<String>,
    /// Provider of the VNF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_provider: Option<String>,
    /// Product name of the VNF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_product_name: Option<String>,
    /// Software version of the VNF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_software_version: Option<String>,
    /// Version of the VNFD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfd_version: Option<String>,
    /// Checksum of the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// How the package is signed, where signatures are looked at and it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_security_option: Option<PackageSecurityOption>,
    /// The certificate of the signature as PEM, where it came as a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_certificate: Option<String>,
    /// How far onboarding is.
    pub onboarding_state: PackageOnboardingState,
    /// Whether it may be used.
    pub operational_state: PackageOperationalState,
    /// Whether it is used.
    pub usage_state: PackageUsageState,
    /// Free data of whoever created the record.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub user_defined_data: KeyValuePairs,
    /// Why onboarding failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onboarding_failure_details: Option<ProblemDetails>,
    /// What the descriptor's reader wants to say although it accepted it; our addition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Related resources.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<VnfPkgInfoLinks>,
}

/// `_links` of [`VnfPkgInfo`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPkgInfoLinks {
    /// This resource.
    #[serde(rename = "self")]
    pub this: Link,
    /// The VNFD; once onboarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfd: Option<Link>,
    /// The content.
    pub package_content: Link,
}
