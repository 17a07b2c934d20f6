//! Attribute selectors (SOL013 5.3): `all_fields`, `fields`, `exclude_fields`, `exclude_default`.
//!
//! `fields` and the default omit only complex attributes (structures, lists, maps) that are optional; mandatory ones are
//! always present. Without a selector a list behaves as with `exclude_default`.

use super::QuerySyntaxError;
use serde_json::{Map, Value};
use vnfm_types::shape::{Many, Resource, Type};

/// Which attributes a response retains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    All,
    /// All simple or mandatory attributes, and these complex ones.
    Only(Vec<Path>),
    /// All attributes except these, at any depth.
    Without(Vec<Path>),
}

type Path = Vec<String>;

impl Selector {
    /// The selector of `exclude_default`: all attributes except those that are omitted by default.
    pub fn default_of(resource: &Resource) -> Self {
        Self(Kind::Without(omitted(resource).collect()))
    }

    /// The selector for `all_fields`: all attributes.
    pub fn all() -> Self {
        Self(Kind::All)
    }

    /// `fields=a,b/c`: of the complex attributes only these.
    ///
    /// # Errors
    ///
    /// If the resource lacks a named attribute.
    pub fn only(resource: &Resource, names: &str) -> Result<Self, QuerySyntaxError> {
        Ok(Self(Kind::Only(paths(resource, names)?)))
    }

    /// `fields=a,b/c` with `exclude_default`: omits the default's attributes except these.
    ///
    /// # Errors
    ///
    /// If the resource lacks a named attribute.
    pub fn default_but(resource: &Resource, names: &str) -> Result<Self, QuerySyntaxError> {
        let wanted = paths(resource, names)?;
        let meets = |path: &Path, omitted: &Path| path.iter().zip(omitted).all(|(a, b)| a == b);
        let is_unwanted = |path: &Path| !wanted.iter().any(|wanted| meets(wanted, path));
        let rest = omitted(resource).filter(is_unwanted);
        Ok(Self(Kind::Without(rest.collect())))
    }

    /// The selector for `exclude_fields=a,b/c`: all attributes except these.
    ///
    /// # Errors
    ///
    /// If the resource lacks a named attribute.
    pub fn without(resource: &Resource, names: &str) -> Result<Self, QuerySyntaxError> {
        Ok(Self(Kind::Without(paths(resource, names)?)))
    }

    /// True if nothing is ever omitted.
    pub fn keeps_all(&self) -> bool {
        match &self.0 {
            Kind::All => true,
            Kind::Only(_) => false,
            Kind::Without(paths) => paths.is_empty(),
        }
    }

    /// Removes what is not selected from `entry`, a `resource`.
    pub fn apply(&self, resource: &Resource, entry: &mut Value) {
        let Value::Object(entry) = entry else { return };
        match &self.0 {
            Kind::All => {}
            Kind::Only(wanted) => {
                let wanted: Vec<&[String]> = wanted.iter().map(Vec::as_slice).collect();
                keep(resource.type_description(), entry, &wanted);
            }
            Kind::Without(unwanted) => {
                for path in unwanted {
                    leave_out(resource.type_description(), entry, path);
                }
            }
        }
    }
}

/// The paths that lists omit by default.
fn omitted(resource: &Resource) -> impl Iterator<Item = Path> {
    let all = resource.omitted_by_default.iter();
    all.map(|path| path.split('/').map(ToOwned::to_owned).collect())
}

/// Parses a comma-separated list of paths, and checks each against the resource.
fn paths(resource: &Resource, names: &str) -> Result<Vec<Path>, QuerySyntaxError> {
    let mut column = 1;
    let mut paths = Vec::new();
    for written in names.split(',') {
        let path: Path = written.split('/').map(unescaped).collect();
        known(resource.type_description(), &path)
            .map_err(|why| QuerySyntaxError::at(column, why))?;
        paths.push(path);
        column += written.chars().count() + 1;
    }
    Ok(paths)
}

fn unescaped(name: &str) -> String {
    name.replace("~1", "/")
        .replace("~a", ",")
        .replace("~b", "@")
        .replace("~0", "~")
}

fn known(kind: &'static Type, path: &[String]) -> Result<(), String> {
    let (Some((first, rest)), mut kind) = (path.split_first(), kind) else {
        return Ok(());
    };
    let (mut name, mut rest) = (first, rest);
    loop {
        let Some(attribute) = kind.attribute(name) else {
            return Err(format!(
                "`{}` has no attribute `{name}`; it has {}",
                kind.name,
                kind.names()
            ));
        };
        if attribute.many == Many::Map {
            rest = rest.get(1..).unwrap_or_default();
        }
        let Some((next, after)) = rest.split_first() else {
            return Ok(());
        };
        match attribute.inside() {
            Some(inside) => kind = inside,
            None if attribute.is_free() => return Ok(()),
            None => {
                return Err(format!("`{name}` has no members, so `{next}` is invalid"));
            }
        }
        (name, rest) = (next, after);
    }
}

/// Of the optional complex attributes, retains only those on a wanted path.
fn keep(of: &'static Type, entry: &mut Map<String, Value>, wanted: &[&[String]]) {
    entry.retain(|name, value| {
        let Some(attribute) = of.attribute(name) else {
            return true;
        };
        let deeper: Vec<&[String]> = wanted
            .iter()
            .filter(|path| path[0] == *name)
            .map(|path| &path[1..])
            .collect();
        if !attribute.is_complex() || deeper.iter().any(|rest| rest.is_empty()) {
            return true;
        }
        if deeper.is_empty() {
            return attribute.needed;
        }
        match attribute.many {
            Many::Map => keep_entries(attribute.inside(), value, &deeper),
            _ => match attribute.inside() {
                Some(of) => structures(value, &mut |entry| keep(of, entry, &deeper)),
                None => keep_free(value, &deeper),
            },
        }
        true
    });
}

/// Retains only the map entries on a wanted path.
fn keep_entries(of: Option<&'static Type>, value: &mut Value, wanted: &[&[String]]) {
    let Value::Object(map) = value else { return };
    map.retain(|key, value| {
        let deeper: Vec<&[String]> = wanted
            .iter()
            .filter(|path| path[0] == *key)
            .map(|path| &path[1..])
            .collect();
        if let (Some(of), false) = (of, deeper.iter().any(|rest| rest.is_empty())) {
            structures(value, &mut |entry| keep(of, entry, &deeper));
        }
        !deeper.is_empty()
    });
}

/// As [`keep`], for free JSON.
fn keep_free(value: &mut Value, wanted: &[&[String]]) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|one| keep_free(one, wanted)),
        Value::Object(members) => members.retain(|name, value| {
            let deeper: Vec<&[String]> = wanted
                .iter()
                .filter(|path| path[0] == *name)
                .map(|path| &path[1..])
                .collect();
            if !deeper.iter().any(|rest| rest.is_empty()) {
                keep_free(value, &deeper);
            }
            !deeper.is_empty()
        }),
        _ => {}
    }
}

/// Calls `act` with a structure, or with each structure in a list.
fn structures(value: &mut Value, act: &mut dyn FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(one) => act(one),
        Value::Array(all) => all
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .for_each(act),
        _ => {}
    }
}

/// Removes the attribute at `path`, unless it is mandatory.
fn leave_out(of: &'static Type, entry: &mut Map<String, Value>, path: &[String]) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let Some(attribute) = of.attribute(name) else {
        return;
    };
    if rest.is_empty() {
        if !attribute.needed {
            entry.remove(name);
        }
        return;
    }
    let Some(value) = entry.get_mut(name) else {
        return;
    };
    match (attribute.many, attribute.inside()) {
        (Many::Map, inside) => {
            let Value::Object(map) = value else { return };
            match (rest, inside) {
                ([key], _) => drop(map.remove(key)),
                ([key, deeper @ ..], Some(of)) => {
                    if let Some(entry) = map.get_mut(key).and_then(Value::as_object_mut) {
                        leave_out(of, entry, deeper);
                    }
                }
                _ => {}
            }
        }
        (_, Some(of)) => structures(value, &mut |entry| leave_out(of, entry, rest)),
        (_, None) => leave_out_free(value, rest),
    }
}

fn leave_out_free(value: &mut Value, path: &[String]) {
    match (value, path) {
        (Value::Array(all), _) => all.iter_mut().for_each(|one| leave_out_free(one, path)),
        (Value::Object(members), [name]) => drop(members.remove(name)),
        (Value::Object(members), [name, deeper @ ..]) => {
            members
                .get_mut(name)
                .into_iter()
                .for_each(|value| leave_out_free(value, deeper));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::Selector;
    use serde_json::{Value, json};
    use vnfm_types::shape::VNF_INSTANCES;

    fn full_entry() -> Value {
        let cp = json!({"id": "c", "cpdId": "d", "cpProtocolInfo": []});
        json!({
            "id": "i", "vnfInstanceName": "n", "vnfdId": "v", "instantiationState": "INSTANTIATED",
            "vimConnectionInfo": {"a": {"vimType": "t", "extra": {"x": 1}}, "b": {"vimType": "t"}},
            "instantiatedVnfInfo": {
                "flavourId": "f", "vnfState": "STARTED", "extCpInfo": [cp], "scaleStatus": [],
                "vnfcResourceInfo": [{"id": "1", "vduId": "u", "computeResource": {"resourceId": "r"},
                    "vnfcCpInfo": [cp], "metadata": {"name": "m", "zone": "z"}}],
            },
            "metadata": {"k": {"l": 1, "m": 2}},
            "_links": {"self": {"href": "h"}},
        })
    }

    fn members(value: &Value) -> Vec<&str> {
        value
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect()
    }

    fn applied(selector: &Selector) -> Value {
        let mut entry = full_entry();
        selector.apply(&VNF_INSTANCES, &mut entry);
        entry
    }

    const SIMPLE: [&str; 5] = [
        "id",
        "vnfInstanceName",
        "vnfdId",
        "instantiationState",
        "_links",
    ];

    #[test]
    fn by_default_a_list_is_short() {
        assert_eq!(
            members(&applied(&Selector::default_of(&VNF_INSTANCES))),
            SIMPLE
        );
        assert_eq!(applied(&Selector::all()), full_entry());
    }

    #[test]
    fn fields_select_down_to_the_named_attribute() {
        let only = |names| applied(&Selector::only(&VNF_INSTANCES, names).unwrap());
        assert_eq!(
            members(&only("id")),
            SIMPLE,
            "simple attributes are always present"
        );
        let entry = only("instantiatedVnfInfo/vnfcResourceInfo/metadata/name,vimConnectionInfo/b");
        assert_eq!(entry["vimConnectionInfo"], json!({"b": {"vimType": "t"}}));
        let info = &entry["instantiatedVnfInfo"];
        assert_eq!(
            members(info),
            ["flavourId", "vnfState", "extCpInfo", "vnfcResourceInfo"]
        );
        let vnfc = &info["vnfcResourceInfo"][0];
        assert_eq!(
            members(vnfc),
            ["id", "vduId", "computeResource", "metadata"]
        );
        assert_eq!(vnfc["metadata"], json!({"name": "m"}));
        assert_eq!(entry.get("metadata"), None);
        assert_eq!(
            only("vimConnectionInfo/a/extra")["vimConnectionInfo"]["a"],
            full_entry()["vimConnectionInfo"]["a"]
        );
        assert_eq!(only("metadata")["metadata"], full_entry()["metadata"]);
    }

    #[test]
    fn fields_with_exclude_default_add_attributes_back() {
        let entry = applied(&Selector::default_but(&VNF_INSTANCES, "metadata").unwrap());
        assert_eq!(entry["metadata"], full_entry()["metadata"]);
        assert_eq!(entry.get("instantiatedVnfInfo"), None);
    }

    #[test]
    fn mandatory_attributes_cannot_be_excluded() {
        let names = "id,_links,vnfInstanceName,instantiatedVnfInfo/extCpInfo,metadata/k/l,vimConnectionInfo/a,\
                     instantiatedVnfInfo/vnfcResourceInfo/vnfcCpInfo,vimConnectionInfo/b/extra";
        let entry = applied(&Selector::without(&VNF_INSTANCES, names).unwrap());
        let mut wanted = full_entry();
        wanted.as_object_mut().unwrap().remove("vnfInstanceName");
        wanted["metadata"]["k"] = json!({"m": 2});
        wanted["vimConnectionInfo"]
            .as_object_mut()
            .unwrap()
            .remove("a");
        let vnfc = &mut wanted["instantiatedVnfInfo"]["vnfcResourceInfo"][0];
        vnfc.as_object_mut().unwrap().remove("vnfcCpInfo");
        assert_eq!(entry, wanted);
    }

    #[test]
    fn an_unknown_name_is_reported_with_its_column() {
        for (names, column, why) in [
            ("id,nmae", 4, "`VnfInstance` has no attribute `nmae`"),
            ("", 1, "has no attribute ``"),
            ("metadata,,id", 10, "has no attribute ``"),
            (
                "instantiatedVnfInfo/x",
                1,
                "`InstantiatedVnfInfo` has no attribute `x`",
            ),
            ("id/x", 1, "`id` has no members"),
            (
                "vimConnectionInfo/a/x",
                1,
                "`VimConnectionInfo` has no attribute `x`",
            ),
        ] {
            let error = Selector::only(&VNF_INSTANCES, names).unwrap_err();
            assert!(
                error.column == column && error.why.contains(why),
                "{names}: {error}"
            );
        }
    }
}
