//! `VnfPkgInfo` (SOL005 9.5.2.5), as far as onboarding needs it, and what is asked of a package.

use crate::{KeyValuePairs, Link, ProblemDetails, Secret};
use jiff::Timestamp;
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
    /// How the package is signed, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_security_option: Option<PackageSecurityOption>,
    /// The certificate of the signature as PEM, where it came as a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_certificate: Option<String>,
    /// VNFMs that may manage the VNF, as the VNFD has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfm_info: Vec<String>,
    /// The software images that it brings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub software_images: Vec<VnfPackageSoftwareImageInfo>,
    /// What it brings beside descriptor, manifest, signatures and images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_artifacts: Vec<VnfPackageArtifactInfo>,
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
    /// What it is at the NFVO that it was fetched from; our addition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nfvo: Option<NfvoPackage>,
    /// Related resources.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<VnfPkgInfoLinks>,
}

/// `VnfPackageSoftwareImageInfo` (SOL005 9.5.3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPackageSoftwareImageInfo {
    /// The node of the VNFD that is made of it, or its tag.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Who makes it.
    pub provider: String,
    /// Its version.
    pub version: String,
    /// Of its bytes.
    pub checksum: Checksum,
    /// Whether it is encrypted.
    pub is_encrypted: bool,
    /// `AKI`, `AMI`, `ARI`, `BARE`, `DOCKER`, `OVA` or `OVF`.
    pub container_format: String,
    /// `QCOW2`, `RAW`, …
    pub disk_format: String,
    /// When it came here.
    #[serde(serialize_with = "crate::time::micros")]
    pub created_at: Timestamp,
    /// The least disk, in bytes.
    pub min_disk: u64,
    /// The least memory, in bytes.
    pub min_ram: u64,
    /// Of the image, in bytes.
    pub size: u64,
    /// Where it lies in the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_path: Option<String>,
    /// Where it lies outside of the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_uri: Option<String>,
}

/// `VnfPackageArtifactInfo` (SOL005 9.5.3.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPackageArtifactInfo {
    /// Where it lies in the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_path: Option<String>,
    /// Where it lies outside of the package.
    #[serde(
        rename = "artifactURI",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub artifact_uri: Option<String>,
    /// Of its bytes.
    pub checksum: Checksum,
    /// Whether it is encrypted.
    pub is_encrypted: bool,
    /// The set of non-MANO artifacts that it is in (SOL004 4.3.7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_mano_artifact_set_id: Option<String>,
    /// What it is for, where SOL004 has a place for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_classification: Option<ArtifactClassification>,
}

/// What an artifact is for, beyond the VNF itself (SOL004 4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ArtifactClassification {
    /// A change log.
    History,
    /// Tests.
    Testing,
    /// Licences.
    License,
}

/// A package at the NFVO that it was fetched from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NfvoPackage {
    /// Its id there.
    pub vnf_pkg_id: String,
    /// Whether it may be used, as the NFVO said last.
    pub operational_state: PackageOperationalState,
}

/// `VnfPkgInfoModifications` (SOL005 9.5.2.3): a merge patch of what may be changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPkgInfoModifications {
    /// Whether it may be used from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operational_state: Option<PackageOperationalState>,
    /// Merged into what is there: a null deletes a member (RFC 7396).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_defined_data: Option<KeyValuePairs>,
}

/// `UploadVnfPackageFromUriRequest` (SOL005 9.5.2.8); how V2.x logs in is taken as well. Written in the open, so that it is
/// sealed before it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UploadVnfPackageFromUriRequest {
    /// Where the archive is.
    pub address_information: String,
    /// How to log in there; what the parameters say where absent.
    #[serde(default)]
    pub auth_type: Option<UploadAuthType>,
    /// User and password.
    #[serde(default)]
    pub params_basic: Option<UploadBasic>,
    /// How to get a token.
    #[serde(default)]
    pub params_oauth2_client_credentials: Option<UploadClientCredentials>,
    /// The user, as V2.4.1 has it.
    #[serde(default)]
    pub user_name: Option<String>,
    /// Its password.
    #[serde(default)]
    pub password: Option<Secret>,
}

/// How to log in where a package is fetched from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum UploadAuthType {
    /// User and password with every request.
    Basic,
    /// A token of a token endpoint.
    Oauth2ClientCredentials,
}

/// User and password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UploadBasic {
    /// The user.
    pub user_name: String,
    /// Its password.
    pub password: Secret,
}

/// OAuth 2.0 client credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UploadClientCredentials {
    /// The client.
    pub client_id: String,
    /// Its password.
    pub client_password: Secret,
    /// Who gives tokens.
    pub token_endpoint: String,
}

/// `_links` of [`VnfPkgInfo`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPkgInfoLinks {
    /// This resource.
    #[serde(rename = "self")]
    pub this: Link,
    /// The VNFD; there once it is onboarded, 409 before.
    pub vnfd: Link,
    /// The content.
    pub package_content: Link,
}
