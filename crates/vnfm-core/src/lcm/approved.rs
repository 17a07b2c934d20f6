//! What a grant decided, and how it changes the operation.

use super::operation::{GrantDecides, GrantRule};
use super::step::StepOutput;
use crate::deployment::Deployment;
use crate::patch::merge_patch;
use crate::ports::{Granted, OpRecord};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_types::{ExtVirtualLinkData, KeyValuePairs, VimConnectionInfo};

/// The approved parts of a grant that affect the operation.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Approved {
    /// `None` if the local policy approved.
    pub grant_id: Option<String>,
    /// Whether the grant chose another VIM than the request.
    pub elsewhere: bool,
    /// The VIM to use; empty: that of the request.
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Override those of the request.
    pub ext_virtual_links: Vec<ExtVirtualLinkData>,
    /// Override those of the request.
    pub additional_params: KeyValuePairs,
    /// What the NFVO decided about resources.
    pub granted: Granted,
}

impl StepOutput for Approved {
    const STEP: &'static str = "grant";
}

impl Approved {
    /// Merges the grant into the request and the target of the operation; idempotent.
    pub(super) fn apply(self, record: &mut OpRecord, rule: Option<&GrantRule>) {
        record.op.grant_id.clone_from(&self.grant_id);
        if !self.additional_params.is_empty()
            && let Some(request) = record.request.to_mut().as_object_mut()
        {
            let params = request
                .entry("additionalParams")
                .or_insert_with(|| json!({}));
            if let Some(params) = params.as_object_mut() {
                merge_patch(params, Some(&self.additional_params));
            }
        }
        let decides = rule.map(|rule| rule.decides);
        let (Some(decides), Some(target)) = (decides, record.target.as_mut()) else {
            return;
        };
        match decides {
            GrantDecides::Placement => self.place(Arc::make_mut(target)),
            GrantDecides::Flavour => self.place_more(Arc::make_mut(target)),
            GrantDecides::NewResources if self.granted.zones.is_empty() => {}
            GrantDecides::NewResources => {
                let zones = &mut Arc::make_mut(target).placement.zones;
                zones.extend(self.granted.zones);
            }
            GrantDecides::Parameters => {}
        }
    }

    /// As [`Self::place`], but keeps what an earlier grant decided and this one does not mention.
    fn place_more(self, target: &mut Deployment) {
        let mut placement = target.placement.clone();
        placement.extend(self.granted.clone());
        self.place(target);
        target.placement = placement.with_links(&target.ext_managed_virtual_links);
    }

    /// Merges VIM, links, parameters and placement into the target.
    fn place(self, target: &mut Deployment) {
        merge_patch(&mut target.additional_params, Some(&self.additional_params));
        if !self.vim_connection_info.is_empty() {
            target.vim_connection_info = self.vim_connection_info;
        }
        if !self.ext_virtual_links.is_empty() {
            let old = std::mem::take(&mut target.ext_virtual_links);
            target.ext_virtual_links = merged(old, self.ext_virtual_links);
        }
        if !self.granted.is_empty() {
            target.placement = self.granted.with_links(&target.ext_managed_virtual_links);
        }
    }
}

/// External links of the request, with those of the grant replacing links of the same id and bindings of the same CP.
fn merged(
    mut old: Vec<ExtVirtualLinkData>,
    new: Vec<ExtVirtualLinkData>,
) -> Vec<ExtVirtualLinkData> {
    old.retain(|link| new.iter().all(|other| other.id != link.id));
    for link in &mut old {
        let is_rebound = |cpd: &str| {
            new.iter()
                .flat_map(|other| &other.ext_cps)
                .any(|data| data.cpd_id == cpd)
        };
        link.ext_cps.retain(|data| !is_rebound(&data.cpd_id));
    }
    old.retain(|link| !link.ext_cps.is_empty());
    old.extend(new);
    old
}

#[cfg(test)]
mod tests {
    use super::merged;
    use serde_json::json;
    use vnfm_types::ExtVirtualLinkData;

    fn links(links: &[(&str, &str, &[&str])]) -> Vec<ExtVirtualLinkData> {
        let link = |(id, network, cps): &(&str, &str, &[&str])| {
            let cps: Vec<_> = cps.iter().map(|cp| json!({"cpdId": cp})).collect();
            serde_json::from_value(json!({"id": id, "resourceId": network, "extCps": cps})).unwrap()
        };
        links.iter().map(link).collect()
    }

    #[test]
    fn links_of_the_grant_replace_the_same_links_and_cps_of_the_request() {
        let old = links(&[
            ("a", "net-a", &["x"]),
            ("b", "net-b", &["y", "z"]),
            ("c", "net-c", &["v"]),
        ]);
        let new = links(&[("a", "net-1", &["x"]), ("d", "net-2", &["y", "v"])]);
        let wanted = links(&[
            ("b", "net-b", &["z"]),
            ("a", "net-1", &["x"]),
            ("d", "net-2", &["y", "v"]),
        ]);
        assert_eq!(merged(old, new.clone()), wanted);
        assert_eq!(merged(wanted.clone(), new), wanted, "idempotent");
    }
}
