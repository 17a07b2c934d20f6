//! `vnfmctl package graph PATH`: the topology as a Mermaid diagram.
//!
//! ```text
//! flowchart LR
//!   subgraph f0["simple"]
//!     f0_v0["web ×1…3"] --- f0_c0(("port")) --- outside
//!   end
//! ```

use crate::args::Format;
use crate::client::Outcome;
use crate::output::{Output, print};
use serde_json::json;
use std::collections::BTreeMap;
use vnfm_descriptor::{Flavour, Package};

pub(super) fn draw(output: Output, package: &Package) -> Outcome<()> {
    let diagram = mermaid(package.vnfd().flavours.values());
    if output.0 != Format::Table {
        return output.value(&json!({"mermaid": diagram}));
    }
    print(diagram.trim_end());
    Ok(())
}

fn mermaid<'a>(flavours: impl Iterator<Item = &'a Flavour>) -> String {
    let mut lines = vec!["flowchart LR".to_owned()];
    for (index, flavour) in flavours.enumerate() {
        lines.push(format!("  subgraph f{index}[\"{}\"]", label(&flavour.id)));
        lines.extend(NodeIds::new(flavour, index).lines(flavour));
        lines.push("  end".to_owned());
        let outside = flavour
            .cps
            .values()
            .enumerate()
            .filter(|(_, cp)| cp.external);
        for (cp, _) in outside {
            lines.push(format!("  f{index}_c{cp} --- outside([\"outside\"])"));
        }
    }
    lines.join("\n")
}

/// The Mermaid identifiers of a flavour's nodes: a prefix and a number per kind.
struct NodeIds<'a> {
    prefix: String,
    vdus: BTreeMap<&'a str, usize>,
    links: BTreeMap<&'a str, usize>,
    storages: BTreeMap<&'a str, usize>,
}

impl<'a> NodeIds<'a> {
    fn new(flavour: &'a Flavour, index: usize) -> Self {
        let numbered = |names: Vec<&'a String>| {
            names
                .into_iter()
                .enumerate()
                .map(|(at, name)| (name.as_str(), at))
                .collect()
        };
        NodeIds {
            prefix: format!("f{index}"),
            vdus: numbered(flavour.vdus.keys().collect()),
            links: numbered(flavour.virtual_links.keys().collect()),
            storages: numbered(flavour.storages.keys().collect()),
        }
    }

    fn lines(&self, flavour: &Flavour) -> Vec<String> {
        let prefix = &self.prefix;
        let mut lines = Vec::new();
        for (name, vdu) in &flavour.vdus {
            let (at, name) = (self.vdus[name.as_str()], label(name));
            let range = match (vdu.min_number_of_instances, vdu.max_number_of_instances) {
                (Some(least), Some(most)) if least == most => format!(" ×{least}"),
                (Some(least), Some(most)) => format!(" ×{least}…{most}"),
                _ => String::new(),
            };
            lines.push(format!("    {prefix}_v{at}[\"{name}{range}\"]"));
            for storage in vdu
                .storages
                .iter()
                .filter_map(|name| self.storages.get(name.as_str()))
            {
                lines.push(format!("    {prefix}_v{at} --- {prefix}_s{storage}"));
            }
        }
        for (name, at) in &self.storages {
            lines.push(format!("    {prefix}_s{at}[(\"{}\")]", label(name)));
        }
        for (name, at) in &self.links {
            lines.push(format!("    {prefix}_l{at}{{{{\"{}\"}}}}", label(name)));
        }
        for (at, mciop) in flavour.mciops.values().enumerate() {
            lines.push(format!("    {prefix}_m{at}[[\"{}\"]]", label(&mciop.name)));
            for vdu in mciop
                .vdus
                .iter()
                .filter_map(|vdu| self.vdus.get(vdu.as_str()))
            {
                lines.push(format!("    {prefix}_m{at} --- {prefix}_v{vdu}"));
            }
        }
        for (at, cp) in flavour.cps.values().enumerate() {
            lines.push(format!("    {prefix}_c{at}((\"{}\"))", label(&cp.name)));
            if let Some(vdu) = cp.vdu.as_deref().and_then(|vdu| self.vdus.get(vdu)) {
                lines.push(format!("    {prefix}_v{vdu} --- {prefix}_c{at}"));
            }
            if let Some(link) = cp
                .virtual_link
                .as_deref()
                .and_then(|link| self.links.get(link))
            {
                lines.push(format!("    {prefix}_c{at} --- {prefix}_l{link}"));
            }
        }
        lines
    }
}

/// Escapes a name for a quoted Mermaid label.
fn label(name: &str) -> String {
    name.replace('"', "#quot;").replace(['\n', '`'], " ")
}
