//! `VnfPkgInfo` (SOL005 9.5.2.5) and requests concerning packages, as far as onboarding needs them.

use crate::{KeyValuePairs, Link, ProblemDetails, Secret};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How a package is signed (SOL004 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PackageSecurityOption {
    /// The manifest is signed and lists the hashes of the files.
    #[serde(rename = "OPTION_1")]
    Option1,
    /// The package is signed as a whole, in an outer archive.
    #[serde(rename = "OPTION_2")]
    Option2,
}

/// `PackageOnboardingStateType`: how far the onboarding of a package is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PackageOnboardingState {
    /// The record exists, but no content was uploaded.
    Created,
    /// Content is being received or downloaded.
    Uploading,
    /// Content is being parsed and verified.
    Processing,
    /// The package can be used.
    Onboarded,
    /// The content was rejected; see `onboardingFailureDetails`.
    Error,
}

/// `PackageOperationalStateType`: set by clients to stop new instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PackageOperationalState {
    /// New instances may be created from it.
    Enabled,
    /// No new instances may be created from it.
    Disabled,
}

impl PackageOnboardingState {
    /// The spelling of the standard, such as `ONBOARDED`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Uploading => "UPLOADING",
            Self::Processing => "PROCESSING",
            Self::Onboarded => "ONBOARDED",
            Self::Error => "ERROR",
        }
    }
}

impl PackageOperationalState {
    /// The spelling of the standard, such as `ENABLED`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "ENABLED",
            Self::Disabled => "DISABLED",
        }
    }
}

/// `PackageUsageStateType`: a package in use cannot be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PackageUsageState {
    /// At least one instance was created from it.
    InUse,
    /// No instance was created from it.
    NotInUse,
}

/// `Checksum` (SOL003 10.5.3.3): the hash of a file or package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    /// Name of the hash function, such as `SHA-256`.
    pub algorithm: String,
    /// The hash in lower-case hexadecimal digits.
    pub hash: String,
}

/// `VnfPkgInfo`: the record of a VNF package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPkgInfo {
    /// Assigned by this VNFM; a UUID.
    pub id: String,
    /// `descriptor_id` of the VNFD; unique per tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfd_id: Option<String>,
    /// Provider, copied from the VNFD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_provider: Option<String>,
    /// Product name, copied from the VNFD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_product_name: Option<String>,
    /// Software version, copied from the VNFD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_software_version: Option<String>,
    /// Version of the VNFD itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfd_version: Option<String>,
    /// Checksum of the uploaded archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// How the package is signed; absent if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_security_option: Option<PackageSecurityOption>,
    /// The signer's certificate as PEM, if it is a separate file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_certificate: Option<String>,
    /// VNFMs that may manage the VNF, as listed in the VNFD.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfm_info: Vec<String>,
    /// Software images contained in or referenced by the package.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub software_images: Vec<VnfPackageSoftwareImageInfo>,
    /// Files other than descriptor, manifest, signatures and images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_artifacts: Vec<VnfPackageArtifactInfo>,
    /// How far onboarding is; only `ONBOARDED` packages can be used.
    pub onboarding_state: PackageOnboardingState,
    /// Whether new instances may be created from it.
    pub operational_state: PackageOperationalState,
    /// Whether an instance was created from it.
    pub usage_state: PackageUsageState,
    /// Free data from the client that created the record.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub user_defined_data: KeyValuePairs,
    /// Why onboarding failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onboarding_failure_details: Option<ProblemDetails>,
    /// Warnings about an accepted descriptor; our addition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The package at the NFVO that it was fetched from; our addition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nfvo: Option<NfvoPackage>,
    /// Related resources; filled in when served.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<VnfPkgInfoLinks>,
}

impl VnfPkgInfo {
    /// A package without content, CREATED and DISABLED.
    pub fn created(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            vnfd_id: None,
            vnf_provider: None,
            vnf_product_name: None,
            vnf_software_version: None,
            vnfd_version: None,
            checksum: None,
            package_security_option: None,
            signing_certificate: None,
            vnfm_info: Vec::new(),
            software_images: Vec::new(),
            additional_artifacts: Vec::new(),
            onboarding_state: PackageOnboardingState::Created,
            operational_state: PackageOperationalState::Disabled,
            usage_state: PackageUsageState::NotInUse,
            user_defined_data: KeyValuePairs::new(),
            onboarding_failure_details: None,
            warnings: Vec::new(),
            nfvo: None,
            links: None,
        }
    }
}

/// `VnfPackageSoftwareImageInfo` (SOL005 9.5.3.2): an image that the VNFD declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPackageSoftwareImageInfo {
    /// The VNFD node that uses it, or its tag.
    pub id: String,
    /// Name of the image, from the VNFD.
    pub name: String,
    /// Who publishes the image, from the VNFD.
    pub provider: String,
    /// Version of the image, from the VNFD.
    pub version: String,
    /// Checksum of the image file.
    pub checksum: Checksum,
    /// Whether the image is encrypted.
    pub is_encrypted: bool,
    /// `AKI`, `AMI`, `ARI`, `BARE`, `DOCKER`, `OVA` or `OVF`.
    pub container_format: String,
    /// Such as `QCOW2` or `RAW`.
    pub disk_format: String,
    /// When it was onboarded, UTC.
    #[serde(serialize_with = "crate::time::micros")]
    pub created_at: Timestamp,
    /// Minimum disk size, in bytes.
    pub min_disk: u64,
    /// Minimum memory size, in bytes.
    pub min_ram: u64,
    /// Size of the image, in bytes.
    pub size: u64,
    /// Path within the package, if it is contained in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_path: Option<String>,
    /// URI outside the package, if it is referenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_uri: Option<String>,
}

/// `VnfPackageArtifactInfo` (SOL005 9.5.3.3): a file of the package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPackageArtifactInfo {
    /// Path within the package, if it is contained in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_path: Option<String>,
    /// URI outside the package, if it is referenced.
    #[serde(
        rename = "artifactURI",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub artifact_uri: Option<String>,
    /// Checksum of the artifact's content.
    pub checksum: Checksum,
    /// Whether the artifact is encrypted.
    pub is_encrypted: bool,
    /// The set of non-MANO artifacts it belongs to (SOL004 4.3.7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_mano_artifact_set_id: Option<String>,
    /// Its purpose, for artifacts with a standard directory in SOL004.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_classification: Option<ArtifactClassification>,
}

/// The purpose of an artifact that is not part of the VNF itself (SOL004 4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ArtifactClassification {
    /// The change history of the package.
    History,
    /// Test scripts and test data.
    Testing,
    /// Licence texts of the VNF.
    License,
}

/// The package at the NFVO that a package was fetched from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NfvoPackage {
    /// Id of the package at the NFVO.
    pub vnf_pkg_id: String,
    /// Last state reported by the NFVO.
    pub operational_state: PackageOperationalState,
}

/// `VnfPkgInfoModifications` (SOL005 9.5.2.3): a merge patch of the modifiable members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPkgInfoModifications {
    /// Whether new instances may be created from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operational_state: Option<PackageOperationalState>,
    /// Merged into the stored data: a null deletes a member (RFC 7396).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_defined_data: Option<KeyValuePairs>,
}

/// `UploadVnfPackageFromUriRequest` (SOL005 9.5.2.8); the login members of V2.x are accepted too. Secrets serialize in clear
/// text, so seal it before storing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UploadVnfPackageFromUriRequest {
    /// URI of the package archive.
    pub address_information: String,
    /// Login method; absent: implied by the parameters.
    #[serde(default)]
    pub auth_type: Option<UploadAuthType>,
    /// Parameters of the `BASIC` login method.
    #[serde(default)]
    pub params_basic: Option<UploadBasic>,
    /// Parameters of the `OAUTH2_CLIENT_CREDENTIALS` method.
    #[serde(default)]
    pub params_oauth2_client_credentials: Option<UploadClientCredentials>,
    /// User name as in V2.4.1.
    #[serde(default)]
    pub user_name: Option<String>,
    /// Password as in V2.4.1, next to `userName`.
    #[serde(default)]
    pub password: Option<Secret>,
}

/// Login method for fetching a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum UploadAuthType {
    /// User and password with every request.
    Basic,
    /// Bearer token from a token endpoint.
    Oauth2ClientCredentials,
}

/// Parameters of HTTP basic authentication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UploadBasic {
    /// User name of the VNFM.
    pub user_name: String,
    /// Password of that user; `Debug` does not print it.
    pub password: Secret,
}

/// Parameters of OAuth 2.0 client credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UploadClientCredentials {
    /// Client id of the VNFM.
    pub client_id: String,
    /// Client secret of that client; `Debug` does not print it.
    pub client_password: Secret,
    /// URI of the token endpoint.
    pub token_endpoint: String,
}

/// `_links` of [`VnfPkgInfo`]: where the package and its parts are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfPkgInfoLinks {
    /// URI of this package in the API.
    #[serde(rename = "self")]
    pub this: Link,
    /// URI of the VNFD; 409 until the package is onboarded.
    pub vnfd: Link,
    /// URI of the package archive.
    pub package_content: Link,
}
