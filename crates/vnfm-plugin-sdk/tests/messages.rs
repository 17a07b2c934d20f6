//! Properties of all messages, tested with random content.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use vnfm_plugin_sdk::testkit::request;
use vnfm_plugin_sdk::{Effects, HookRequest, NewVim};

/// Arbitrary JSON, small enough to read in a test failure.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(".{0,6}", inner, 0..4).prop_map(|all| all.into_iter().collect::<Value>()),
        ]
    })
}

/// Members that no SDK knows.
fn unknown() -> impl Strategy<Value = Map<String, Value>> {
    btree_map("x-[a-z]{1,6}", any_json(), 0..4)
        .prop_map(|all| all.into_iter().collect::<Map<String, Value>>())
}

/// JSON pointers of the objects that a newer host may extend.
const EXTENSIBLE: [&str; 4] = [
    "",
    "/instance",
    "/inventory",
    "/inventory/vnfcResourceInfo/0",
];

proptest! {
    #[test]
    fn unknown_members_from_a_newer_host_are_preserved(
        more in vec(unknown(), EXTENSIBLE.len()),
        params in any_json(),
    ) {
        let sent = request("instantiate_end").vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")]);
        let mut sent = sent.json().clone();
        sent["additionalParams"] = params.clone();
        for (pointer, members) in EXTENSIBLE.iter().zip(&more) {
            sent.pointer_mut(pointer).unwrap().as_object_mut().unwrap().extend(members.clone());
        }
        let read: HookRequest = serde_json::from_value(sent).unwrap();
        prop_assert_eq!(&read.more, &more[0]);
        let typed: HookRequest<Value> = read.typed().unwrap();
        let params = if params.is_null() { json!({}) } else { params };
        prop_assert_eq!(&typed.additional_params, &params);
        let again = serde_json::to_value(&typed).unwrap();
        for (pointer, members) in EXTENSIBLE.iter().zip(&more) {
            let object = again.pointer(pointer).unwrap();
            for (name, value) in members {
                prop_assert_eq!(&object[name.as_str()], value, "`{}` at `{}`", name, pointer);
            }
        }
    }

    #[test]
    fn effects_round_trip_and_hide_secrets(
        metadata in btree_map(".{1,8}", any_json(), 0..4),
        names in vec(".{1,12}", 0..3),
        message in proptest::option::of(".{0,20}"),
    ) {
        const SECRET: &str = "a secret of 24 characters";
        let mut effects = Effects::none();
        for (key, value) in metadata {
            effects = effects.metadata(key, value);
        }
        for name in names {
            let vim = NewVim::new(name.clone(), "ETSINFV.KUBERNETES.V_1").access("bearer_token", SECRET);
            effects = effects.register_vim(vim).unregister_vim(name);
        }
        if let Some(message) = message {
            effects = effects.message(message);
        }
        let read: Effects = serde_json::from_value(serde_json::to_value(&effects).unwrap()).unwrap();
        prop_assert_eq!(&read, &effects);
        let debug = format!("{effects:?}");
        prop_assert!(!debug.contains(SECRET), "{}", debug);
    }
}
