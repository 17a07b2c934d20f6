//! Lists (SOL013 5): filters, selectors, pages, unpaged lists, and malformed queries.

use crate::bench::{Bench, INSTANCES, OPS, PACKAGES, Response, Setup};
use serde_json::{Value, json};

fn ids(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{response:?}");
    let entries = response.body.as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect()
}

fn members(entry: &Value) -> Vec<&str> {
    entry
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// Path of the next page, if any.
fn next(bench: &Bench, response: &Response) -> Option<String> {
    let link = response.headers.get("link")?.to_str().unwrap();
    let uri = link
        .strip_prefix('<')
        .unwrap()
        .strip_suffix(">; rel=\"next\"")
        .unwrap();
    Some(uri.strip_prefix(&bench.url).unwrap().to_owned())
}

async fn named(bench: &Bench, vnfd: &str, name: &str) -> String {
    let body = json!({"vnfdId": vnfd, "vnfInstanceName": name, "metadata": {"site": name, "n": 1}});
    let response = bench.post(INSTANCES, &body).await;
    assert_eq!(response.status, 201, "{response:?}");
    response.id()
}

/// Creates two instances and instantiates the first.
async fn two(bench: &Bench) -> (String, String, String) {
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let (web, db) = (
        named(bench, &vnfd, "web").await,
        named(bench, &vnfd, "it's, (a) db").await,
    );
    let request = bench.request_b().await;
    let op = bench
        .post(&format!("{INSTANCES}/{web}/instantiate"), &request)
        .await
        .created_id();
    assert_eq!(bench.ended(&op).await["operationState"], "COMPLETED");
    (web, db, op)
}

#[tokio::test]
async fn filters_select_the_matching_entries() {
    let bench = Bench::new().await;
    let (web, db, op) = two(&bench).await;
    for (filter, wanted) in [
        ("(eq,vnfInstanceName,web)", vec![&web]),
        ("(eq,vnfInstanceName,%27it%27%27s,+(a)+db%27)", vec![&db]),
        ("(eq,instantiationState,INSTANTIATED)", vec![&web]),
        (
            "(eq,instantiatedVnfInfo/vnfcResourceInfo/vduId,web)",
            vec![&web],
        ),
        ("(eq,metadata/site,web);(eq,metadata/n,1)", vec![&web]),
        ("(eq,metadata/site,web);(eq,metadata/n,2)", vec![]),
        (
            "(neq,id,%27%27);(eq,vimConnectionInfo/@key,vim1)",
            vec![&web],
        ),
    ] {
        let response = bench.get(&format!("{INSTANCES}?filter={filter}")).await;
        assert_eq!(
            ids(&response).iter().collect::<Vec<_>>(),
            wanted,
            "{filter}"
        );
    }
    let query = format!("{OPS}?filter=(eq,vnfInstanceId,{web});(eq,operationState,COMPLETED)");
    assert_eq!(ids(&bench.get(&query).await), [op]);
    assert!(
        ids(&bench
            .get(&format!("{OPS}?filter=(eq,vnfInstanceId,{db})"))
            .await)
        .is_empty()
    );
    let in_use = bench
        .get(&format!("{PACKAGES}?filter=(eq,usageState,IN_USE)"))
        .await;
    assert_eq!(ids(&in_use).len(), 1);
    let none = bench
        .get(&format!("{PACKAGES}?filter=(eq,usageState,NOT_IN_USE)"))
        .await;
    assert_eq!((ids(&none).len(), none.text.as_str()), (0, "[]"));
}

#[tokio::test]
async fn selectors_choose_the_members_of_a_list() {
    let bench = Bench::new().await;
    let (web, _, op) = two(&bench).await;
    let listed = async |query: &str| {
        let all = bench
            .get(&format!("{INSTANCES}?filter=(eq,id,{web}){query}"))
            .await
            .body;
        all[0].clone()
    };
    let full = bench.get(&format!("{INSTANCES}/{web}")).await.body;
    assert_eq!(listed("&all_fields").await, full);
    let short = listed("").await;
    assert_eq!(listed("&exclude_default=").await, short);
    for left_out in [
        "vimConnectionInfo",
        "instantiatedVnfInfo",
        "metadata",
        "extensions",
    ] {
        assert!(!members(&short).contains(&left_out), "{short:#}");
    }
    for kept in [
        "id",
        "vnfInstanceName",
        "vnfdId",
        "instantiationState",
        "_links",
    ] {
        assert_eq!(short[kept], full[kept], "{kept}");
    }
    let some = listed("&fields=metadata,instantiatedVnfInfo/vnfcResourceInfo/vnfcCpInfo").await;
    assert_eq!(some["metadata"], full["metadata"]);
    let vnfc = &some["instantiatedVnfInfo"]["vnfcResourceInfo"][0];
    assert_eq!(
        members(vnfc),
        ["id", "vduId", "computeResource", "vnfcCpInfo"]
    );
    assert!(some.get("vimConnectionInfo").is_none());
    assert!(
        listed("&fields=metadata&exclude_default")
            .await
            .get("metadata")
            .is_some()
    );
    let without = listed("&exclude_fields=metadata,id,instantiatedVnfInfo/extCpInfo").await;
    assert!(
        without.get("metadata").is_none() && without["id"] == full["id"],
        "{without:#}"
    );
    assert_eq!(
        without["instantiatedVnfInfo"], full["instantiatedVnfInfo"],
        "a mandatory member cannot be excluded"
    );
    large_members_are_omitted(&bench, &op).await;
}

/// Lists of operations and packages omit their large members by default.
async fn large_members_are_omitted(bench: &Bench, op: &str) {
    let ops = bench.get(&format!("{OPS}?filter=(eq,id,{op})")).await.body;
    assert!(ops[0].get("operationParams").is_none() && ops[0].get("resourceChanges").is_none());
    let packages = bench.get(PACKAGES).await.body;
    assert!(packages[0].get("checksum").is_none(), "{packages:#}");
    assert!(
        bench.get(&format!("{PACKAGES}?all_fields")).await.body[0]
            .get("checksum")
            .is_some()
    );
}

#[tokio::test]
async fn pages_continue_after_the_last_id_despite_changes() {
    let bench = Bench::with(Setup {
        page: 2,
        ..Setup::default()
    })
    .await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let mut created = Vec::new();
    for number in 0..7 {
        created.push(named(&bench, &vnfd, &format!("n{number}")).await);
    }
    created.sort();
    let query = format!("{INSTANCES}?filter=(cont,vnfInstanceName,n)&fields=metadata");
    let first = bench.get(&query).await;
    assert_eq!(ids(&first), created[..2]);
    assert_eq!(
        bench
            .delete(&format!("{INSTANCES}/{}", created[1]))
            .await
            .status,
        204
    );
    assert_eq!(
        bench
            .delete(&format!("{INSTANCES}/{}", created[2]))
            .await
            .status,
        204
    );
    named(&bench, &vnfd, "other").await;
    let mut seen = Vec::new();
    let mut page = next(&bench, &first);
    while let Some(path) = page {
        let response = bench.get(&path).await;
        assert!(
            response
                .body
                .as_array()
                .unwrap()
                .iter()
                .all(|one| one.get("metadata").is_some())
        );
        seen.extend(ids(&response));
        page = next(&bench, &response);
    }
    assert_eq!(
        seen,
        created[3..],
        "filter and selector apply to every page"
    );
}

#[tokio::test]
async fn an_unpaged_list_has_no_link_header() {
    let bench = Bench::with(Setup {
        page: 0,
        ..Setup::default()
    })
    .await;
    assert_eq!(bench.get(INSTANCES).await.text, "[]");
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let mut created = Vec::new();
    for number in 1..=250 {
        created.push(bench.create(&vnfd).await);
        if [1, 99, 100, 101, 200, 250].contains(&number) {
            let response = bench.get(&format!("{INSTANCES}?all_fields")).await;
            created.sort();
            assert_eq!(ids(&response), created);
            assert!(!response.headers.contains_key("link"));
        }
    }
    let ill = bench.get(&format!("{INSTANCES}?filter=x")).await;
    assert_eq!(ill.status, 400, "{ill:?}");
}

/// Malformed queries, and what the error says.
const MALFORMED: &[(&str, &str)] = &[
    ("filter=", "`filter`, column 1: expected `(`"),
    (
        "filter=(eq,id,1);(is,id,1)",
        "`filter`, column 12: unknown operator `is`",
    ),
    (
        "filter=(eq,vnfInstanceNmae,1)",
        "`filter`, column 5: `VnfInstance` has no attribute `vnfInstanceNmae`",
    ),
    (
        "filter=(eq,id,1,2)",
        "`filter`, column 10: this operator takes no more than 1",
    ),
    (
        "filter=(eq,id,%27a)",
        "`filter`, column 8: this apostrophe is not closed",
    ),
    (
        "filter=(eq,id,1)&filter=(eq,id,2)",
        "`filter` is given twice",
    ),
    (
        "fields=id,nmae",
        "`fields`, column 4: `VnfInstance` has no attribute `nmae`",
    ),
    ("exclude_fields=x", "`exclude_fields`, column 1"),
    ("all_fields=yes", "`all_fields` is a flag"),
    ("all_fields&fields=metadata", "of `all_fields`, `fields`"),
    (
        "fields=metadata&exclude_fields=metadata",
        "of `all_fields`, `fields`",
    ),
    ("all_fields&exclude_default", "of `all_fields`, `fields`"),
    (
        "exclude_fields=metadata&exclude_default",
        "of `all_fields`, `fields`",
    ),
    (
        "nextpage_opaque_marker=1%27",
        "invalid `nextpage_opaque_marker`",
    ),
    (
        "sort=id",
        "`sort` is not supported here; supported: filter, all_fields",
    ),
];

#[tokio::test]
async fn a_malformed_query_gets_400_with_the_column() {
    let bench = Bench::new().await;
    for (query, expected) in MALFORMED {
        let response = bench.get(&format!("{INSTANCES}?{query}")).await;
        assert_eq!(response.status, 400, "{query}: {response:?}");
        assert!(
            response.detail().contains(expected),
            "{query}: {}",
            response.detail()
        );
    }
    let of_another = bench.get(&format!("{OPS}?filter=(eq,vnfdId,1)")).await;
    assert!(
        of_another
            .detail()
            .contains("`VnfLcmOpOcc` has no attribute `vnfdId`"),
        "{of_another:?}"
    );
}

#[tokio::test]
async fn hostile_filters_are_refused_or_match_nothing() {
    let bench = Bench::new().await;
    two(&bench).await;
    let deep = vec!["(eq,metadata/a/b/c/d/e/f/g/h/i/j/k,1)"; 50].join(";");
    let long = format!("(in,id,{})", vec!["x"; 500].join(","));
    let sql = "(eq,vnfInstanceName,%27x%27%27 OR 1=1 --%27)";
    let nul = "(eq,metadata/%00,%00)";
    let quote = "(eq,metadata/\"]; DROP TABLE instances,1)";
    for filter in [
        &*deep,
        &*long,
        sql,
        nul,
        quote,
        "(cont,metadata/%F0%9F%A6%80,%FF)",
    ] {
        let response = bench.get(&format!("{INSTANCES}?filter={filter}")).await;
        assert_eq!(
            (response.status, response.text.as_str()),
            (200, "[]"),
            "{filter}"
        );
    }
    assert_eq!(ids(&bench.get(INSTANCES).await).len(), 2);
    // Deeper than the database can compile: refused with a hint instead of an internal error.
    for names in 12..25 {
        let path = format!("metadata{}", "/a".repeat(names));
        let response = bench
            .get(&format!("{INSTANCES}?filter=(eq,{path},x)"))
            .await;
        assert_eq!(response.status, 400, "{response:?}");
        assert!(
            response.detail().contains("no more than 12 names"),
            "{response:?}"
        );
    }
    // A long chain of alternatives must not be too deep either.
    let many = format!("(cont,metadata/a,{})", vec!["x"; 500].join(","));
    let response = bench.get(&format!("{INSTANCES}?filter={many}")).await;
    assert_eq!((response.status, response.text.as_str()), (200, "[]"));
}
