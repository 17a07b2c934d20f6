//! Which findings follow from another one, in addition to those that the descriptor knows.

use crate::explain::codes;
use vnfm_descriptor::raw::{Relation, Rule};

/// Cannot be determined if a type or a node template is missing.
const UNUSED: &[&str] = &[
    codes::LINK_UNUSED,
    codes::STORAGE_UNUSED,
    codes::CONTAINER_UNUSED,
];

/// Causes, what they have in common with their consequences, consequences.
pub(crate) const CONSEQUENCES: &[Rule] = &[
    Rule::new(
        &[
            codes::IMPORT,
            codes::YAML,
            codes::YAML_BOMB,
            codes::TYPE_UNKNOWN,
            codes::TYPE_CYCLE,
        ],
        Relation::Any,
        &[codes::VNF_REQUIRED],
    ),
    Rule::new(
        &[codes::TYPE_UNKNOWN],
        Relation::Any,
        &[codes::WORKLOAD, codes::VDU_INITIAL],
    ),
    Rule::new(
        &[
            codes::TYPE_UNKNOWN,
            codes::REQUIREMENT_UNKNOWN,
            codes::NODE_UNKNOWN,
            codes::NODE_KIND,
        ],
        Relation::Any,
        UNUSED,
    ),
    Rule::new(
        &[codes::REQUIREMENT_UNKNOWN],
        Relation::SameName,
        &[codes::OCCURRENCES, codes::CP_BINDING, codes::CP_LINK],
    ),
    Rule::new(
        &[codes::NODE_UNKNOWN],
        Relation::Suggested,
        &[codes::ASPECT_DELTAS, codes::VDU_INITIAL],
    ),
    Rule::new(
        &[codes::POLICY, codes::ASPECT_UNKNOWN],
        Relation::Suggested,
        &[codes::ASPECT_DELTAS, codes::LEVEL_DEFAULT],
    ),
    Rule::new(&[codes::DEPLOY_NONE], Relation::Any, &[codes::ORDER_NONE]),
    Rule::new(
        &[codes::TYPE_UNKNOWN, codes::KEY_UNKNOWN, codes::ORDER_FILE],
        Relation::Any,
        &[codes::DEPLOY_NONE],
    ),
    Rule::new(&[codes::MAPPING], Relation::Suggested, &[codes::CP_LINK]),
    Rule::new(
        &[codes::PROPERTY_UNKNOWN, codes::PROPERTY_MISSING],
        Relation::SameTemplate,
        &[codes::VDU_INITIAL],
    ),
    Rule::new(
        &[codes::PROPERTY_MISSING],
        Relation::SameTemplate,
        &[codes::ASPECT_DELTAS, codes::ASPECT_STEPS],
    ),
    Rule::new(
        &[codes::ASPECT_STEPS],
        Relation::SameName,
        &[codes::DELTA_UNUSED],
    ),
    Rule::new(&[codes::VNF_MISSING], Relation::Any, &[codes::CP_LINK]),
    Rule::new(
        &[codes::MANIFEST, codes::MANIFEST_FILE],
        Relation::SameName,
        &[codes::MANIFEST_HASHES],
    ),
    Rule::new(
        &[codes::MANIFEST, codes::MANIFEST_FILE],
        Relation::Suggested,
        &[codes::FILE_UNNAMED],
    ),
    Rule::new(&[codes::META_KEY], Relation::Suggested, &[codes::META_KEY]),
    Rule::new(
        &[codes::MANIFEST_METADATA],
        Relation::Suggested,
        &[codes::MANIFEST_METADATA],
    ),
    Rule::new(
        &[codes::INPUT_UNKNOWN],
        Relation::Suggested,
        &[codes::INPUT_UNUSED],
    ),
    Rule::new(
        &[codes::NODE_UNKNOWN, codes::FUNCTION],
        Relation::SameCall,
        &[codes::REFERENCE],
    ),
    Rule::new(
        &[codes::IMPLEMENTATION_UNKNOWN],
        Relation::Suggested,
        &[codes::ARTIFACT_UNUSED],
    ),
    Rule::new(
        &[codes::ORDER_MANIFEST],
        Relation::Suggested,
        &[codes::MANIFEST_UNUSED],
    ),
    Rule::new(
        &[codes::ORDER_MANIFEST, codes::ORDER_FILE],
        Relation::Any,
        &[codes::VARIABLE_UNUSED],
    ),
    Rule::new(
        &[
            codes::ORDER_MANIFEST,
            codes::ORDER_FILE,
            codes::MANIFEST_YAML,
            codes::K8S_KIND,
        ],
        Relation::Any,
        &[codes::WORKLOAD],
    ),
    Rule::new(
        &[codes::HOT_REFERENCE],
        Relation::Suggested,
        &[codes::HOT_UNUSED],
    ),
    Rule::new(
        &[codes::VARIABLE_UNKNOWN],
        Relation::Suggested,
        &[codes::VARIABLE_UNUSED],
    ),
    Rule::new(
        &[codes::NODE_UNKNOWN],
        Relation::Any,
        &[codes::AFFINITY_ONE],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use vnfm_descriptor::raw::Sink;
    use vnfm_descriptor::{Finding, Span};

    fn at(code: &'static str, line: usize) -> Finding {
        let span = Span {
            file: "a".into(),
            line,
            column: 1,
        };
        Finding::new(code, span, code)
    }

    fn remaining(findings: &[&Finding]) -> Vec<&'static str> {
        let mut sink = Sink::default();
        for finding in findings {
            sink.add((*finding).clone());
        }
        let all = sink.all_with(CONSEQUENCES);
        all.iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_failing_function_call_is_reported_once() {
        let node = at(codes::NODE_UNKNOWN, 3).calling("get_property");
        let open = at(codes::FUNCTION, 3).calling("get_property");
        let named = at(codes::REFERENCE, 3).calling("get_property");
        let other = at(codes::REFERENCE, 3).calling("get_attribute");
        assert_eq!(
            remaining(&[&open, &node, &named, &other]),
            [codes::NODE_UNKNOWN, codes::REFERENCE]
        );
        assert_eq!(remaining(&[&open, &named]), [codes::FUNCTION]);
        let elsewhere = at(codes::REFERENCE, 4).calling("get_property");
        assert_eq!(remaining(&[&node, &elsewhere]).len(), 2);
    }

    #[test]
    fn a_misspelt_requirement_is_reported_once() {
        let target = at(codes::REQUIREMENT_UNKNOWN, 1).about("port");
        let unlinked = at(codes::CP_LINK, 2).about("port");
        assert_eq!(
            remaining(&[&target, &unlinked]),
            [codes::REQUIREMENT_UNKNOWN]
        );
        let other = at(codes::CP_LINK, 2).about("other");
        assert_eq!(remaining(&[&target, &other]).len(), 2);
    }

    #[test]
    fn a_file_whose_name_is_misspelt_in_the_manifest_is_reported_once() {
        let misspelt = at(codes::MANIFEST, 1).about("a.sg").suggest("a.sh");
        let unnamed = at(codes::FILE_UNNAMED, 0).about("a.sh");
        assert_eq!(remaining(&[&misspelt, &unnamed]), [codes::MANIFEST]);
    }
}
