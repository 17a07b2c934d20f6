//! What the record of an instance says after a change of its package (SOL003 5.4.11a, 5.5.2.12b).
//!
//! | extension or configurable property | afterwards |
//! |---|---|
//! | that the request sets | as requested; the new VNFD must declare it |
//! | that both VNFDs declare, or neither | stays |
//! | that only the new VNFD declares | its default, if it has one |
//! | that only the old VNFD declares | removed |
//!
//! Metadata stay.

use super::destination::{Destination, path_of};
use crate::context::Context;
use crate::lcm::op_context::Op;
use crate::patch::{check_types, merge_patch};
use crate::ports::{PortError, Schemas};
use crate::refusal::{self, Refusal, Why};
use serde_json::Value;
use vnfm_descriptor::{Flavour, Package};
use vnfm_types::{
    ChangeCurrentVnfPkgRequest, KeyValuePairs, ModificationsTriggeredByVnfPkgChange, VnfInstance,
};

const EXTENSIONS: &str = "extensions";
const PROPERTIES: &str = "vnfConfigurableProperties";

/// The attributes after the change.
pub(super) struct Attributes {
    vnfd_id: String,
    provider: String,
    product_name: String,
    software_version: String,
    vnfd_version: String,
    extensions: KeyValuePairs,
    properties: KeyValuePairs,
}

impl Attributes {
    /// Those that a request leads to.
    ///
    /// # Errors
    ///
    /// `Unprocessable` for a value that the new VNFD does not declare, or declares with another type.
    pub(super) fn after(
        context: &Context,
        vnf: &VnfInstance,
        to: &Destination,
        request: &ChangeCurrentVnfPkgRequest,
    ) -> Result<Self, Refusal> {
        let info = vnf.instantiated_vnf_info.as_ref();
        let flavour_id = info.map_or("", |info| &info.flavour_id);
        let flavours = Flavours {
            old: to.source.vnfd().flavour(flavour_id),
            new: Some(to.flavour()?),
        };
        Self::carried(
            &to.package,
            flavours,
            &*context.ports.schemas,
            (vnf, request),
        )
    }

    /// Those of an operation that has reached its target.
    ///
    /// # Errors
    ///
    /// If a package or the request cannot be read.
    pub(super) fn read(op: &Op) -> Result<Self, PortError> {
        let (source, package) = (op.package_before()?, op.package()?);
        let before = op.deployment_before()?;
        let path = path_of((source, before), package);
        let flavours = Flavours {
            old: source.vnfd().flavour(&before.flavour_id),
            new: package.vnfd().flavour(&path.flavour_id),
        };
        let schemas = &*op.context.ports.schemas;
        let carried = Self::carried(
            package,
            flavours,
            schemas,
            (&op.instance.vnf, &op.request()?),
        );
        carried.map_err(crate::vims::as_port_error)
    }

    fn carried(
        package: &Package,
        flavours: Flavours<'_>,
        schemas: &dyn Schemas,
        (vnf, request): (&VnfInstance, &ChangeCurrentVnfPkgRequest),
    ) -> Result<Self, Refusal> {
        let vnfd = package.vnfd();
        let (extensions, properties) = (&request.extensions, &request.vnf_configurable_properties);
        let values = |name, old, requested| flavours.values(name, schemas, (old, requested));
        Ok(Self {
            vnfd_id: vnfd.descriptor_id.clone(),
            provider: vnfd.provider.clone(),
            product_name: vnfd.product_name.clone(),
            software_version: vnfd.software_version.clone(),
            vnfd_version: vnfd.descriptor_version.clone(),
            extensions: values(EXTENSIONS, &vnf.extensions, extensions)?,
            properties: values(PROPERTIES, &vnf.vnf_configurable_properties, properties)?,
        })
    }

    /// What differs from the instance so far, with its new value; null for what was removed.
    pub(super) fn modifications(&self, vnf: &VnfInstance) -> ModificationsTriggeredByVnfPkgChange {
        let other = |old: &String, new: &String| (old != new).then(|| new.clone());
        ModificationsTriggeredByVnfPkgChange {
            vnf_configurable_properties: differing(
                &vnf.vnf_configurable_properties,
                &self.properties,
            ),
            metadata: KeyValuePairs::new(),
            extensions: differing(&vnf.extensions, &self.extensions),
            vnfd_id: other(&vnf.vnfd_id, &self.vnfd_id),
            vnf_provider: other(&vnf.vnf_provider, &self.provider),
            vnf_product_name: other(&vnf.vnf_product_name, &self.product_name),
            vnf_software_version: other(&vnf.vnf_software_version, &self.software_version),
            vnfd_version: other(&vnf.vnfd_version, &self.vnfd_version),
        }
    }

    /// Writes them into the instance.
    pub(super) fn store_into(self, vnf: &mut VnfInstance) {
        vnf.vnfd_id = self.vnfd_id;
        vnf.vnf_provider = self.provider;
        vnf.vnf_product_name = self.product_name;
        vnf.vnf_software_version = self.software_version;
        vnf.vnfd_version = self.vnfd_version;
        vnf.extensions = self.extensions;
        vnf.vnf_configurable_properties = self.properties;
    }
}

/// The flavours that declare the attributes.
#[derive(Clone, Copy)]
struct Flavours<'a> {
    old: Option<&'a Flavour>,
    new: Option<&'a Flavour>,
}

impl Flavours<'_> {
    /// The values of one attribute after the change.
    fn values(
        &self,
        name: &str,
        schemas: &dyn Schemas,
        (old, requested): (&KeyValuePairs, &KeyValuePairs),
    ) -> Result<KeyValuePairs, Refusal> {
        let declared = |flavour: Option<&Flavour>| {
            let schema = flavour.and_then(|flavour| flavour.modifiable_types.get(name));
            let properties = schema.and_then(|schema| schema["properties"].as_object());
            properties.cloned().unwrap_or_default()
        };
        let (before, after) = (declared(self.old), declared(self.new));
        let mut values = old.clone();
        values.retain(|key, _| after.contains_key(key) || !before.contains_key(key));
        for (key, schema) in &after {
            let default = schema.get("default").filter(|default| !default.is_null());
            if let Some(default) = default.filter(|_| !values.contains_key(key)) {
                values.insert(key.clone(), default.clone());
            }
        }
        merge_patch(&mut values, Some(requested));
        let schema = self
            .new
            .and_then(|flavour| flavour.modifiable_types.get(name));
        let mut checked = values.clone();
        checked.retain(|key, _| after.contains_key(key) || requested.contains_key(key));
        let checked = check_types(schemas, schema, &checked, false);
        checked.map_err(|why| {
            let what = format!("{name}: {why}");
            Refusal::new(Why::Unprocessable, &refusal::UNDECLARED, what)
        })?;
        Ok(values)
    }
}

fn differing(before: &KeyValuePairs, after: &KeyValuePairs) -> KeyValuePairs {
    let changed = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(*value));
    let changed = changed.map(|(key, value)| (key.clone(), value.clone()));
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    changed
        .chain(removed.map(|key| (key.clone(), Value::Null)))
        .collect()
}
