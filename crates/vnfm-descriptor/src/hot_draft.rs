//! A first version of the parameter mapping: for each parameter that nothing fills, a guess from where templates use it.
//!
//! | used as | expression |
//! |---|---|
//! | `flavor`, `image`, `availability_zone` of a server of a VDU | `vdu.<vdu>.flavor`, `.image`, `.zone` |
//! | size of a group of servers of a VDU | `vdu.<vdu>.count` |
//! | `network`, address or subnet of a port named like an external CP | `extCp.<cp>.network`, `.address`, `.subnet` |
//! | `cidr` of a subnet of a virtual link's network | `virtualLink.<link>.cidr` |
//! | `size` of a volume named like a storage | `storage.<storage>.size` |
//! | anything else | `additionalParams.<parameter>` |
//!
//! A use in a nested template counts, too. A line that rests on more than a name has a comment.

use crate::archive::ReadError;
use crate::hot::{BaseHot, HotParameter, PARAMETERS_FILE};
use crate::hot_uses::{TemplateUses, Use};
use crate::model::Flavour;
use crate::package::Package;
use std::fmt::Write as _;

const SERVER: &str = "OS::Nova::Server";
/// Scalars that YAML 1.1 does not read as text.
const YAML_WORDS: &[&str] = &["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// An expression for a parameter, and what to check about it.
struct Guess {
    expression: String,
    comment: Option<&'static str>,
}

/// The lines that the mapping lacks, or `None` if every parameter is filled.
///
/// # Errors
///
/// If a template cannot be read.
pub fn draft_mapping(package: &Package) -> Result<Option<String>, ReadError> {
    let has_mapping = package.paths().any(|path| path == PARAMETERS_FILE);
    let mut sections = Vec::new();
    for flavour in package.vnfd().flavours.values() {
        let Some(hot) = package.base_hot(&flavour.id) else {
            continue;
        };
        let uses = TemplateUses::read(package, hot)?;
        let open = hot.declared.iter().filter(|parameter| {
            let is_bound = hot.parameters.0.contains_key(&parameter.name);
            // A new mapping must also bind what is filled without one.
            !(parameter.has_default || is_bound && has_mapping)
        });
        let lines = open.map(|parameter| line(flavour, &uses, parameter));
        sections.push((flavour, hot, lines.collect::<Vec<_>>()));
    }
    sections.retain(|(_, hot, lines)| !lines.is_empty() && lacks_binding(hot));
    let mut text = match sections.as_slice() {
        [] => return Ok(None),
        _ if has_mapping => {
            format!("# What {PARAMETERS_FILE} lacks. Check the lines with a comment.\n")
        }
        _ => format!("# A first version of {PARAMETERS_FILE}. Check the lines with a comment.\n"),
    };
    if let [(_, _, lines)] = sections.as_slice() {
        write_section(&mut text, lines, "");
        return Ok(Some(text));
    }
    text.push_str("flavours:\n");
    for (flavour, _, lines) in &sections {
        let _ = writeln!(text, "  {}:", quoted(&flavour.id));
        write_section(&mut text, lines, "    ");
    }
    Ok(Some(text))
}

/// Whether nothing fills a parameter of the template.
fn lacks_binding(hot: &BaseHot) -> bool {
    let is_open = |parameter: &HotParameter| {
        !parameter.has_default && !hot.parameters.0.contains_key(&parameter.name)
    };
    hot.declared.iter().any(is_open)
}

fn write_section(text: &mut String, lines: &[String], indent: &str) {
    let _ = writeln!(text, "{indent}parameters:");
    for line in lines {
        let _ = writeln!(text, "{indent}  {line}");
    }
}

fn line(flavour: &Flavour, uses: &TemplateUses, parameter: &HotParameter) -> String {
    let guess = guess(flavour, uses, &parameter.name);
    let name = quoted(&parameter.name);
    match guess.comment {
        Some(comment) => format!("{name}: {}   # {comment}", guess.expression),
        None => format!("{name}: {}", guess.expression),
    }
}

fn guess(flavour: &Flavour, uses: &TemplateUses, parameter: &str) -> Guess {
    if parameter == "nfv" {
        return Guess {
            expression: "nfv".to_owned(),
            comment: None,
        };
    }
    let found = uses.uses_of(parameter);
    found
        .iter()
        .find_map(|one| by_use(flavour, one))
        .or_else(|| by_name(flavour, parameter))
        .unwrap_or_else(|| Guess {
            expression: quoted(&format!("additionalParams.{parameter}")),
            comment: Some("a guess: the request gives it"),
        })
}

/// The expression for a use.
fn by_use(flavour: &Flavour, used: &Use) -> Option<Guess> {
    let (kind, key) = (used.kind.as_str(), used.keys.last()?.as_str());
    match (kind, key) {
        (SERVER, "flavor") => of_vdu(flavour, used, "flavor"),
        (SERVER, "image") => of_vdu(flavour, used, "image"),
        (SERVER, "availability_zone") => of_vdu(flavour, used, "zone"),
        ("OS::Heat::ResourceGroup", "count")
        | ("OS::Heat::AutoScalingGroup", "desired_capacity") => of_vdu(flavour, used, "count"),
        ("OS::Neutron::Port", "network" | "network_id") => of_cp(flavour, used, "network"),
        ("OS::Neutron::Port", "ip_address") => of_cp(flavour, used, "address"),
        ("OS::Neutron::Port", "subnet" | "subnet_id") => of_cp(flavour, used, "subnet"),
        ("OS::Neutron::Subnet", "cidr") => {
            let link = used.network.as_deref()?;
            let is_link = flavour.virtual_links.contains_key(link);
            is_link.then(|| certain(&format!("virtualLink.{link}.cidr"), link))?
        }
        ("OS::Cinder::Volume", "size") => {
            let mut names = used.resources.iter();
            let storage = names.find(|name| flavour.storages.contains_key(*name))?;
            certain(&format!("storage.{storage}.size"), storage)
        }
        _ => None,
    }
}

/// The VDU that a resource around the use is named after, else the only one.
fn of_vdu(flavour: &Flavour, used: &Use, member: &str) -> Option<Guess> {
    let mut names = used.resources.iter().chain(&used.members);
    let named = names.find_map(|name| vdu_of(flavour, name));
    let mut all = flavour.vdus.keys();
    let only = all.next().filter(|_| all.next().is_none());
    let vdu = named.or_else(|| only.map(String::as_str))?;
    let guess = vdu_expression(vdu, member)?;
    Some(Guess {
        comment: guess.comment.or(named
            .is_none()
            .then_some("a guess: the flavour has no other VDU")),
        ..guess
    })
}

/// The VDU of a resource: named after it, or after one of its VNFCs.
fn vdu_of<'n>(flavour: &Flavour, name: &'n str) -> Option<&'n str> {
    let is_vdu = |name: &&str| flavour.vdus.contains_key(*name);
    let stem = name.rsplit_once('-').map(|(stem, _)| stem);
    Some(name).filter(is_vdu).or(stem.filter(is_vdu))
}

fn vdu_expression(vdu: &str, member: &str) -> Option<Guess> {
    let expression = certain(&format!("vdu.{vdu}.{member}"), vdu)?.expression;
    if member != "zone" {
        return Some(Guess {
            expression,
            comment: None,
        });
    }
    Some(Guess {
        expression: format!("{{from: {expression}, default: \"\"}}"),
        comment: Some("without a zone in the grant: anywhere"),
    })
}

/// The external CP that a resource around the use is named after.
fn of_cp(flavour: &Flavour, used: &Use, member: &str) -> Option<Guess> {
    let is_cp = |name: &&String| flavour.external_cps.iter().any(|cp| cp.cpd_id == **name);
    let cp = used.resources.iter().find(is_cp)?;
    certain(&format!("extCp.{cp}.{member}"), cp)
}

/// An expression with this name; `None` if the name contains the separator of an expression's words.
fn certain(expression: &str, name: &str) -> Option<Guess> {
    (!name.contains('.')).then(|| Guess {
        expression: quoted(expression),
        comment: None,
    })
}

/// The expression for a parameter called like a VDU's or CP's property, such as `web_image`.
fn by_name(flavour: &Flavour, parameter: &str) -> Option<Guess> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let name = plain(parameter);
    let ends = [
        ("flavor", "flavor"),
        ("flavour", "flavor"),
        ("image", "image"),
        ("zone", "zone"),
        ("count", "count"),
    ];
    let (_, member) = ends.iter().find(|(end, _)| name.ends_with(end))?;
    let mut vdus = flavour.vdus.keys();
    let vdu = vdus.find(|vdu| name.starts_with(&plain(vdu)))?;
    Some(Guess {
        comment: Some("a guess: by its name"),
        ..vdu_expression(vdu, member)?
    })
}

/// A text as a YAML scalar, in quotes unless it is plain in every version of YAML.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_word = YAML_WORDS.contains(&text.to_lowercase().as_str());
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts_plain && !is_word && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    serde_json::Value::String(text.to_owned()).to_string()
}
