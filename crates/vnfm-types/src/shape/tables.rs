//! The attributes of all listed resources and their nested types, as in SOL003 V3.7.1 (`VnfPkgInfo`: SOL005), with our
//! additions: `instantiatedVnfInfo/metadata`, `warnings` of a package, shared virtual links, retained volumes, and our own members of
//! [`ProblemDetails`](crate::ProblemDetails). A test compares them with the official schemas. Constants that end in `V1`
//! are the differences in SOL003 V2.6.1 ([`v1`](crate::v1)).

use super::Shape::{Free, Hidden, Key, Links, Number, Text, Time, Truth};
use super::{Attribute, Many, Shape, Type};

/// `attribute [needed]: One|List|Map shape` for each attribute of each type.
macro_rules! types {
    ($($const:ident = $name:ident { $($attribute:ident $([$needed:ident])?: $many:ident $shape:ident);* })*) => {
        $(pub(super) const $const: Shape = Shape::Structure(&Type {
            name: stringify!($name),
            attributes: &[$(Attribute {
                name: stringify!($attribute),
                needed: types!(@ $($needed)?),
                many: Many::$many,
                shape: $shape,
            }),*],
        });)*
    };
    (@) => { false };
    (@ needed) => { true };
}

types! {
    VIM_CONNECTION_INFO = VimConnectionInfo {
        vimId: One Text; vimType [needed]: One Text; interfaceInfo: One Free; accessInfo: One Hidden; extra:
        One Free
    }
    VIM_CONNECTION_INFO_V1 = VimConnectionInfo {
        id [needed]: One Key; vimId: One Text; vimType [needed]: One Text; interfaceInfo: One Free; accessInfo:
        One Hidden; extra: One Free
    }
    SCALE_INFO = ScaleInfo {
        aspectId [needed]: One Text; vnfdId: One Text; scaleLevel [needed]: One Number
    }
    ADDRESS_RANGE = AddressRange {
        minAddress [needed]: One Text; maxAddress [needed]: One Text
    }
    IP_ADDRESSES = IpAddresses {
        type [needed]: One Text; addresses: List Text; isDynamic: One Truth; addressRange: One ADDRESS_RANGE;
        subnetId: One Text
    }
    IP_OVER_ETHERNET_ADDRESS_INFO = IpOverEthernetAddressInfo {
        macAddress: One Text; segmentationId: One Text; ipAddresses: List IP_ADDRESSES
    }
    CP_PROTOCOL_INFO = CpProtocolInfo {
        layerProtocol [needed]: One Text; ipOverEthernet: One IP_OVER_ETHERNET_ADDRESS_INFO
    }
    VNF_EXT_CP_INFO = VnfExtCpInfo {
        id [needed]: One Text; cpdId [needed]: One Text; cpConfigId [needed]: One Text; vnfdId: One Text;
        cpProtocolInfo [needed]: List CP_PROTOCOL_INFO; extLinkPortId: One Text; metadata: One Free;
        associatedVnfcCpId: One Text; associatedVipCpId: One Text; associatedVnfVirtualLinkId: One Text
    }
    VIP_CP_INFO = VipCpInfo {
        cpInstanceId [needed]: One Text; cpdId [needed]: One Text; vnfdId: One Text; vnfExtCpId: One Text;
        cpProtocolInfo: List CP_PROTOCOL_INFO; associatedVnfcCpIds: List Text; vnfLinkPortId: One Text;
        metadata: One Free
    }
    RESOURCE_HANDLE = ResourceHandle {
        vimConnectionId: One Text; resourceProviderId: One Text; resourceId [needed]: One Text;
        vimLevelResourceType: One Text
    }
    EXT_LINK_PORT_INFO = ExtLinkPortInfo {
        id [needed]: One Text; resourceHandle [needed]: One RESOURCE_HANDLE; cpInstanceId: One Text;
        secondaryCpInstanceId: One Text; trunkResourceId: One Text
    }
    IP_OVER_ETHERNET_ADDRESS_DATA_IP_ADDRESSES = IpOverEthernetAddressDataIpAddresses {
        type [needed]: One Text; fixedAddresses: List Text; numDynamicAddresses: One Number; addressRange: One
        ADDRESS_RANGE; subnetId: One Text
    }
    IP_OVER_ETHERNET_ADDRESS_DATA = IpOverEthernetAddressData {
        macAddress: One Text; segmentationType: One Text; segmentationId: One Text; ipAddresses: List
        IP_OVER_ETHERNET_ADDRESS_DATA_IP_ADDRESSES
    }
    CP_PROTOCOL_DATA = CpProtocolData {
        layerProtocol [needed]: One Text; ipOverEthernet: One IP_OVER_ETHERNET_ADDRESS_DATA
    }
    VNF_EXT_CP_CONFIG = VnfExtCpConfig {
        parentCpConfigId: One Text; linkPortId: One Text; createExtLinkPort: One Truth; cpProtocolData: List
        CP_PROTOCOL_DATA
    }
    VNF_EXT_CP_DATA = VnfExtCpData {
        cpdId [needed]: One Text; cpConfig: Map VNF_EXT_CP_CONFIG
    }
    EXT_VIRTUAL_LINK_INFO = ExtVirtualLinkInfo {
        id [needed]: One Text; resourceHandle [needed]: One RESOURCE_HANDLE; extLinkPorts: List
        EXT_LINK_PORT_INFO; currentVnfExtCpData [needed]: List VNF_EXT_CP_DATA
    }
    VNF_LINK_PORT_INFO = VnfLinkPortInfo {
        id [needed]: One Text; resourceHandle [needed]: One RESOURCE_HANDLE; cpInstanceId: One Text;
        cpInstanceType: One Text; vipCpInstanceId: One Text; trunkResourceId: One Text
    }
    EXT_MANAGED_VIRTUAL_LINK_INFO = ExtManagedVirtualLinkInfo {
        id [needed]: One Text; vnfVirtualLinkDescId [needed]: One Text; vnfdId: One Text; networkResource
        [needed]: One RESOURCE_HANDLE; vnfLinkPorts: List VNF_LINK_PORT_INFO;
        extManagedMultisiteVirtualLinkId: One Text
    }
    MONITORING_PARAMETER = MonitoringParameter {
        id [needed]: One Text; vnfdId: One Text; name: One Text; performanceMetric [needed]: One Text
    }
    VNFC_CP_INFO = VnfcCpInfo {
        id [needed]: One Text; cpdId [needed]: One Text; vnfExtCpId: One Text; cpProtocolInfo: List
        CP_PROTOCOL_INFO; vnfLinkPortId: One Text; metadata: One Free; parentCpId: One Text
    }
    VNFC_RESOURCE_INFO = VnfcResourceInfo {
        id [needed]: One Text; vduId [needed]: One Text; vnfdId: One Text; computeResource [needed]: One
        RESOURCE_HANDLE; zoneId: One Text; storageResourceIds: List Text; reservationId: One Text; vnfcCpInfo:
        List VNFC_CP_INFO; metadata: One Free
    }
    VNF_VIRTUAL_LINK_RESOURCE_INFO = VnfVirtualLinkResourceInfo {
        id [needed]: One Text; vnfVirtualLinkDescId [needed]: One Text; vnfdId: One Text; networkResource
        [needed]: One RESOURCE_HANDLE; zoneId: One Text; reservationId: One Text; vnfLinkPorts: List
        VNF_LINK_PORT_INFO; metadata: One Free
    }
    VIRTUAL_STORAGE_RESOURCE_INFO = VirtualStorageResourceInfo {
        id [needed]: One Text; virtualStorageDescId [needed]: One Text; vnfdId: One Text; storageResource
        [needed]: One RESOURCE_HANDLE; zoneId: One Text; reservationId: One Text; metadata: One Free
    }
    INSTANTIATED_VNF_INFO = InstantiatedVnfInfo {
        flavourId [needed]: One Text; vnfState [needed]: One Text; scaleStatus: List SCALE_INFO;
        maxScaleLevels: List SCALE_INFO; extCpInfo [needed]: List VNF_EXT_CP_INFO; vipCpInfo: List
        VIP_CP_INFO; extVirtualLinkInfo: List EXT_VIRTUAL_LINK_INFO; extManagedVirtualLinkInfo: List
        EXT_MANAGED_VIRTUAL_LINK_INFO; monitoringParameters: List MONITORING_PARAMETER; localizationLanguage:
        One Text; vnfcResourceInfo: List VNFC_RESOURCE_INFO; vnfVirtualLinkResourceInfo: List
        VNF_VIRTUAL_LINK_RESOURCE_INFO; virtualStorageResourceInfo: List VIRTUAL_STORAGE_RESOURCE_INFO;
        metadata: One Free
    }
    VNF_INSTANCE = VnfInstance {
        id [needed]: One Text; vnfInstanceName: One Text; vnfInstanceDescription: One Text; vnfdId [needed]:
        One Text; vnfProvider [needed]: One Text; vnfProductName [needed]: One Text; vnfSoftwareVersion
        [needed]: One Text; vnfdVersion [needed]: One Text; vnfConfigurableProperties: One Free;
        vimConnectionInfo: Map VIM_CONNECTION_INFO; instantiationState [needed]: One Text;
        instantiatedVnfInfo: One INSTANTIATED_VNF_INFO; metadata: One Free; extensions: One Free; _links
        [needed]: One Links
    }
    VNF_INSTANCE_V1 = VnfInstance {
        id [needed]: One Text; vnfInstanceName: One Text; vnfInstanceDescription: One Text; vnfdId [needed]:
        One Text; vnfProvider [needed]: One Text; vnfProductName [needed]: One Text; vnfSoftwareVersion
        [needed]: One Text; vnfdVersion [needed]: One Text; vnfConfigurableProperties: One Free;
        vnfPkgId [needed]: One Text; vimConnectionInfo: List VIM_CONNECTION_INFO_V1; instantiationState [needed]: One Text;
        instantiatedVnfInfo: One INSTANTIATED_VNF_INFO; metadata: One Free; extensions: One Free; _links
        [needed]: One Links
    }
    PROBLEM_DETAILS = ProblemDetails {
        type: One Text; title: One Text; status [needed]: One Number; detail [needed]: One Text; instance: One
        Text; code: One Text; step: One Text; resource: One Text; requestId: One Text; retryable: One Truth;
        blockedBy: List Text; next: One Text
    }
    AFFECTED_VNFC = AffectedVnfc {
        id [needed]: One Text; vduId [needed]: One Text; vnfdId: One Text; changeType [needed]: One Text;
        computeResource [needed]: One RESOURCE_HANDLE; resourceDefinitionId: One Text; zoneId: One Text;
        metadata: One Free; affectedVnfcCpIds: List Text; addedStorageResourceIds: List Text;
        removedStorageResourceIds: List Text
    }
    AFFECTED_VIRTUAL_LINK = AffectedVirtualLink {
        id [needed]: One Text; vnfVirtualLinkDescId [needed]: One Text; vnfdId: One Text; changeType [needed]:
        One Text; networkResource [needed]: One RESOURCE_HANDLE; vnfLinkPortIds: List Text;
        resourceDefinitionId: One Text; zoneId: One Text; metadata: One Free
    }
    AFFECTED_EXT_LINK_PORT = AffectedExtLinkPort {
        id [needed]: One Text; changeType [needed]: One Text; extCpInstanceId [needed]: One Text;
        resourceHandle [needed]: One RESOURCE_HANDLE; resourceDefinitionId: One Text
    }
    AFFECTED_VIRTUAL_STORAGE = AffectedVirtualStorage {
        id [needed]: One Text; virtualStorageDescId [needed]: One Text; vnfdId: One Text; changeType [needed]:
        One Text; storageResource [needed]: One RESOURCE_HANDLE; resourceDefinitionId: One Text; zoneId: One
        Text; metadata: One Free
    }
    RESOURCE_CHANGES = ResourceChanges {
        affectedVnfcs: List AFFECTED_VNFC; affectedVirtualLinks: List AFFECTED_VIRTUAL_LINK;
        affectedExtLinkPorts: List AFFECTED_EXT_LINK_PORT; affectedVirtualStorages: List
        AFFECTED_VIRTUAL_STORAGE
    }
    VNF_INFO_MODIFICATIONS = VnfInfoModifications {
        vnfInstanceName: One Text; vnfInstanceDescription: One Text; vnfConfigurableProperties: One Free;
        metadata: One Free; extensions: One Free; vimConnectionInfo: Map VIM_CONNECTION_INFO; vnfdId: One
        Text; vnfProvider: One Text; vnfProductName: One Text; vnfSoftwareVersion: One Text; vnfdVersion: One
        Text
    }
    VNF_INFO_MODIFICATIONS_V1 = VnfInfoModifications {
        vnfInstanceName: One Text; vnfInstanceDescription: One Text; vnfConfigurableProperties: One Free;
        metadata: One Free; extensions: One Free; vimConnectionInfo: List VIM_CONNECTION_INFO_V1; vnfdId: One
        Text; vnfProvider: One Text; vnfProductName: One Text; vnfSoftwareVersion: One Text; vnfdVersion: One
        Text
    }
    AFFECTED_VIP_CP = AffectedVipCp {
        cpInstanceId [needed]: One Text; cpdId [needed]: One Text; vnfdId: One Text; changeType [needed]: One
        Text
    }
    MODIFICATIONS_TRIGGERED_BY_VNF_PKG_CHANGE = ModificationsTriggeredByVnfPkgChange {
        vnfConfigurableProperties: One Free; metadata: One Free; extensions: One Free; vnfdId: One Text;
        vnfProvider: One Text; vnfProductName: One Text; vnfSoftwareVersion: One Text; vnfdVersion: One Text;
        vimConnectionInfo: Map VIM_CONNECTION_INFO
    }
    LCM_COORDINATIONS = LcmCoordinations {
        id [needed]: One Text; coordinationActionName [needed]: One Text; coordinationResult: One Text;
        startTime [needed]: One Time; endTime: One Time; delay: One Time; endpointType [needed]: One Text
    }
    REJECTED_LCM_COORDINATIONS = RejectedLcmCoordinations {
        coordinationActionName [needed]: One Text; rejectionTime [needed]: One Time; delay [needed]: One Time;
        endpointType [needed]: One Text
    }
    VNF_LCM_OP_OCC = VnfLcmOpOcc {
        id [needed]: One Text; operationState [needed]: One Text; stateEnteredTime [needed]: One Time;
        startTime [needed]: One Time; vnfInstanceId [needed]: One Text; grantId: One Text; operation [needed]:
        One Text; isAutomaticInvocation [needed]: One Truth; operationParams: One Free; isCancelPending
        [needed]: One Truth; cancelMode: One Text; error: One PROBLEM_DETAILS; resourceChanges: One
        RESOURCE_CHANGES; changedInfo: One VNF_INFO_MODIFICATIONS; affectedVipCps: List AFFECTED_VIP_CP;
        changedExtConnectivity: List EXT_VIRTUAL_LINK_INFO; modificationsTriggeredByVnfPkgChange: One
        MODIFICATIONS_TRIGGERED_BY_VNF_PKG_CHANGE; vnfSnapshotInfoId: One Text; lcmCoordinations: List
        LCM_COORDINATIONS; rejectedLcmCoordinations: List REJECTED_LCM_COORDINATIONS; warnings: List Text;
        _links: One Links
    }
    VNF_LCM_OP_OCC_V1 = VnfLcmOpOcc {
        id [needed]: One Text; operationState [needed]: One Text; stateEnteredTime [needed]: One Time;
        startTime [needed]: One Time; vnfInstanceId [needed]: One Text; grantId: One Text; operation [needed]:
        One Text; isAutomaticInvocation [needed]: One Truth; operationParams: One Free; isCancelPending
        [needed]: One Truth; cancelMode: One Text; error: One PROBLEM_DETAILS; resourceChanges: One
        RESOURCE_CHANGES; changedInfo: One VNF_INFO_MODIFICATIONS_V1; affectedVipCps: List AFFECTED_VIP_CP;
        changedExtConnectivity: List EXT_VIRTUAL_LINK_INFO; modificationsTriggeredByVnfPkgChange: One
        MODIFICATIONS_TRIGGERED_BY_VNF_PKG_CHANGE; vnfSnapshotInfoId: One Text; lcmCoordinations: List
        LCM_COORDINATIONS; rejectedLcmCoordinations: List REJECTED_LCM_COORDINATIONS; warnings: List Text;
        _links: One Links
    }
    STORAGE_SNAPSHOT_RESOURCES = StorageSnapshotResources {
        storageResourceId [needed]: One Text; storageSnapshotResource: One Free
    }
    VNFC_SNAPSHOT_INFO = VnfcSnapshotInfo {
        id [needed]: One Text; vnfcInstanceId [needed]: One Text; creationStartedAt: One Time; creationFinishedAt: One Time;
        vnfcResourceInfoId: One Text; computeSnapshotResource: One RESOURCE_HANDLE; storageSnapshotResources: List
        STORAGE_SNAPSHOT_RESOURCES; userDefinedData: One Free
    }
    VNF_STATE_SNAPSHOT_INFO = VnfStateSnapshotInfo {
        checksum [needed]: One Free; isEncrypted [needed]: One Free; metadata: One Free
    }
    VNF_SNAPSHOT = VnfSnapshot {
        id [needed]: One Text; vnfInstanceId [needed]: One Text; creationStartedAt: One Time; creationFinishedAt: One Time;
        vnfdId [needed]: One Text; vnfInstance: One VNF_INSTANCE; vnfcSnapshots [needed]: List VNFC_SNAPSHOT_INFO;
        vnfStateSnapshotInfo: One VNF_STATE_SNAPSHOT_INFO; userDefinedData: One Free; _links: One Links
    }
    VNF_SNAPSHOT_INFO = VnfSnapshotInfo {
        id [needed]: One Text; vnfSnapshotPkgId: One Text; vnfSnapshot: One VNF_SNAPSHOT; _links [needed]: One Links
    }
    LINK_SUBNET = LinkSubnet {
        cidr [needed]: One Text; gatewayIp: One Text; dhcpEnabled: One Truth
    }
    SHARED_LINK = SharedLink {
        id [needed]: One Text; name [needed]: One Text; vimId [needed]: One Text; state [needed]: One Text; resourceId: One
        Text; createdAt [needed]: One Time; subnets: List LINK_SUBNET; namespace: One Text; cniConfig: One Free
    }
    RETAINED_VOLUME = RetainedVolume {
        id [needed]: One Text; state [needed]: One Text; vimId [needed]: One Text; resourceId: One Text; sizeGib:
        One Number; volumeType: One Text; virtualStorageDescId [needed]: One Text; vnfdId: One Text; vnfInstanceId: One
        Text; createdAt [needed]: One Time; usedBy: One Text
    }
    CHECKSUM = Checksum {
        algorithm [needed]: One Text; hash [needed]: One Text
    }
    VNF_PACKAGE_SOFTWARE_IMAGE_INFO = VnfPackageSoftwareImageInfo {
        id [needed]: One Text; name [needed]: One Text; provider [needed]: One Text; version [needed]: One
        Text; checksum [needed]: One CHECKSUM; isEncrypted [needed]: One Truth; containerFormat [needed]: One
        Text; diskFormat [needed]: One Text; createdAt [needed]: One Time; minDisk [needed]: One Number;
        minRam [needed]: One Number; size [needed]: One Number; userMetadata: One Free; imagePath: One Text;
        imageUri: One Text
    }
    VNF_PACKAGE_ARTIFACT_INFO = VnfPackageArtifactInfo {
        artifactPath: One Text; artifactURI: One Text; checksum [needed]: One CHECKSUM; isEncrypted
        [needed]: One Truth; nonManoArtifactSetId: One Text; artifactClassification: One Text; metadata: One
        Free
    }
    NFVO_PACKAGE = NfvoPackage {
        vnfPkgId [needed]: One Text; operationalState [needed]: One Text
    }
    VNF_PKG_INFO = VnfPkgInfo {
        id [needed]: One Text; vnfdId: One Text; vnfProvider: One Text; vnfProductName: One Text;
        vnfSoftwareVersion: One Text; vnfdVersion: One Text; compatibleSpecificationVersions: List Text;
        checksum: One CHECKSUM; packageSecurityOption: One Text; signingCertificate: One Text; softwareImages:
        List VNF_PACKAGE_SOFTWARE_IMAGE_INFO; additionalArtifacts: List VNF_PACKAGE_ARTIFACT_INFO;
        onboardingState [needed]: One Text; operationalState [needed]: One Text; usageState [needed]: One
        Text; vnfmInfo: List Text; userDefinedData: One Free; onboardingFailureDetails: One PROBLEM_DETAILS;
        _links [needed]: One Links; warnings: List Text; nfvo: One NFVO_PACKAGE
    }
    VERSIONS = Versions {
        vnfSoftwareVersion [needed]: One Text; vnfdVersions: List Text
    }
    VNF_PRODUCTS = VnfProducts {
        vnfProductName [needed]: One Text; versions: List VERSIONS
    }
    VNF_PRODUCTS_FROM_PROVIDERS = VnfProductsFromProviders {
        vnfProvider [needed]: One Text; vnfProducts: List VNF_PRODUCTS
    }
    VNF_INSTANCE_SUBSCRIPTION_FILTER = VnfInstanceSubscriptionFilter {
        vnfdIds: List Text; vnfProductsFromProviders: List VNF_PRODUCTS_FROM_PROVIDERS; vnfInstanceIds: List
        Text; vnfInstanceNames: List Text
    }
    LIFECYCLE_CHANGE_NOTIFICATIONS_FILTER = LifecycleChangeNotificationsFilter {
        vnfInstanceSubscriptionFilter: One VNF_INSTANCE_SUBSCRIPTION_FILTER; notificationTypes: List Text;
        operationTypes: List Text; operationStates: List Text
    }
    LCCN_SUBSCRIPTION = LccnSubscription {
        id [needed]: One Text; filter: One LIFECYCLE_CHANGE_NOTIFICATIONS_FILTER; callbackUri [needed]: One
        Text; verbosity [needed]: One Text; _links [needed]: One Links
    }
}
