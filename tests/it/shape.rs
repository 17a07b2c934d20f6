//! The attributes of filters and selectors are exactly those of the official schemas.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_tests::live::sol_data;
use vnfm_types::shape::{
    Attribute, LCCN_SUBSCRIPTIONS, Many, Shape, Type, VNF_INSTANCES, VNF_LCM_OP_OCCS, VNF_PACKAGES,
};

const BUNDLE: &str = "jsonschema/sol003-v3.7.1.patched.bundle.json";
/// What we add, and the members of `ProblemDetails` that are ours.
const OURS: &[&str] = &[
    "instantiatedVnfInfo/metadata",
    "warnings",
    "nfvo",
    "code",
    "step",
    "resource",
    "requestId",
    "retryable",
    "blockedBy",
    "next",
];

#[test]
fn attribute_tables_match_the_official_schemas() {
    let Some(data) = sol_data() else { return };
    let text = std::fs::read_to_string(data.join(BUNDLE)).unwrap();
    let mut bundle: Value = serde_json::from_str(&text).unwrap();
    // Packages are served the SOL005 way, where a checksum is an object, and an artifact in the package or at one URI.
    let artifact = &mut bundle["$defs"]["VnfPackageArtifactInfo"];
    artifact["required"] = json!(["checksum", "isEncrypted"]);
    artifact["properties"]["artifactURI"] = json!({"type": "string"});
    bundle["$defs"]["Checksum"] = json!({"required": ["algorithm", "hash"],
        "properties": {"algorithm": {"type": "string"}, "hash": {"type": "string"}}});
    let mut walk = Walk {
        bundle,
        compared: 0,
        wrong: Vec::new(),
    };
    for (name, resource) in [
        ("VnfInstance", &VNF_INSTANCES),
        ("VnfLcmOpOcc", &VNF_LCM_OP_OCCS),
        ("VnfPkgInfo", &VNF_PACKAGES),
        ("LccnSubscription", &LCCN_SUBSCRIPTIONS),
    ] {
        walk.structure(
            resource.type_description(),
            &walk.bundle["$defs"][name].clone(),
            "",
        );
    }
    assert!(walk.wrong.is_empty(), "{}", walk.wrong.join("\n"));
    assert!(walk.compared > 400, "{}", walk.compared);
}

struct Walk {
    bundle: Value,
    compared: usize,
    wrong: Vec<String>,
}

impl Walk {
    /// A schema where its references lead.
    fn followed(&self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        while let Some(place) = schema["$ref"].as_str() {
            schema = self.bundle.pointer(&place[1..]).unwrap().clone();
        }
        let nullable = ["anyOf", "oneOf"].into_iter().find_map(|several| {
            let mut all = schema[several].as_array()?.iter();
            all.find(|one| schema["properties"].is_null() && one["type"] != "null")
                .cloned()
        });
        nullable.map_or(schema, |one| self.followed(&one))
    }

    fn structure(&mut self, of: &Type, schema: &Value, at: &str) {
        let official = schema["properties"].as_object().unwrap();
        let names: BTreeSet<_> = official.keys().map(String::as_str).collect();
        let needed: BTreeSet<_> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for attribute in of.attributes {
            let at = format!("{at}/{}", attribute.name);
            if OURS.iter().any(|ours| at.ends_with(&format!("/{ours}")))
                && !names.contains(attribute.name)
            {
                continue;
            }
            let Some(schema) = official.get(attribute.name) else {
                self.wrong
                    .push(format!("{at}: the standard does not have it"));
                continue;
            };
            if attribute.needed != needed.contains(attribute.name) {
                self.wrong
                    .push(format!("{at}: needed is {}", attribute.needed));
            }
            self.compared += 1;
            self.attribute(attribute, schema, &at);
        }
        for missing in names.iter().filter(|name| of.attribute(name).is_none()) {
            self.wrong
                .push(format!("{at}/{missing}: the standard has it"));
        }
    }

    fn attribute(&mut self, attribute: &Attribute, schema: &Value, at: &str) {
        if matches!(attribute.shape, Shape::Links) {
            return;
        }
        let mut schema = self.followed(schema);
        let many = match (&schema["type"], &schema["additionalProperties"]) {
            (kind, _) if kind == "array" => Many::List,
            (_, inside) if inside.as_object().is_some_and(|inside| !inside.is_empty()) => Many::Map,
            _ => Many::One,
        };
        if many != attribute.many {
            return self
                .wrong
                .push(format!("{at}: {:?} and not {many:?}", attribute.many));
        }
        match many {
            Many::List => schema = self.followed(&schema["items"].clone()),
            Many::Map => schema = self.followed(&schema["additionalProperties"].clone()),
            Many::One => {}
        }
        let kind = schema["type"].as_str().unwrap_or("any");
        let fits = match attribute.shape {
            Shape::Structure(of) => {
                self.structure(of, &schema, at);
                true
            }
            Shape::Text => kind == "string" && schema["format"] != "date-time",
            Shape::Time => schema["format"] == "date-time",
            Shape::Number => matches!(kind, "integer" | "number"),
            Shape::Truth => kind == "boolean",
            _ => schema["properties"].is_null() && matches!(kind, "object" | "any"),
        };
        if !fits {
            self.wrong
                .push(format!("{at}: {:?} and not {schema}", attribute.shape));
        }
    }
}
