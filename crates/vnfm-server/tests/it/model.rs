//! Random sequences of calls compared with a model of the resources: the response of each call, and the resulting
//! states, links and lists. Both versions of the interface alternate.

use crate::bench::{Bench, INSTANCES, OPS, Response};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::atomic::Ordering::SeqCst;

const SEQUENCES: u64 = 24;
const CALLS: usize = 40;

/// Reproducible pseudo-random numbers (xorshift), from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}

/// The expected state of an instance.
#[derive(Debug, Clone)]
struct Vnf {
    id: String,
    name: Option<String>,
    instantiated: bool,
    /// Scale level of its aspect.
    level: usize,
    /// The instantiation that is in FAILED_TEMP.
    stopped: Option<String>,
    /// The operations that have ended.
    ended: Vec<String>,
}

impl Vnf {
    fn is_free(&self) -> bool {
        self.stopped.is_none()
    }

    fn links(&self) -> Vec<&'static str> {
        match (self.is_free(), self.instantiated) {
            (false, _) => vec!["self"],
            (true, false) => vec!["self", "instantiate"],
            (true, true) => vec![
                "self",
                "changeCurrentVnfPkg",
                "changeExtConn",
                "createSnapshot",
                "heal",
                "operate",
                "revertToSnapshot",
                "scale",
                "scaleToLevel",
                "terminate",
            ],
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Call {
    Create,
    Delete,
    Instantiate { fails: bool },
    Terminate,
    Heal,
    Rename,
    Retry { fails: bool },
    Rollback,
    Fail,
    Cancel,
    Scale,
    Nobody,
}

impl Call {
    fn by(chance: &mut Chance) -> Self {
        let fails = chance.below(2) == 0;
        match chance.below(14) {
            0 | 1 => Self::Create,
            2 => Self::Delete,
            3 | 4 => Self::Instantiate { fails },
            5 => Self::Terminate,
            6 => Self::Heal,
            7 => Self::Rename,
            8 => Self::Retry { fails },
            9 => Self::Rollback,
            10 => Self::Fail,
            11 => Self::Cancel,
            12 => Self::Scale,
            _ => Self::Nobody,
        }
    }
}

struct Play {
    bench: Bench,
    vnfd: String,
    vim: String,
    chance: Chance,
    vnfs: Vec<Vnf>,
    /// The calls so far, for the message of a failure.
    calls: Vec<String>,
}

impl Play {
    async fn new(seed: u64) -> Self {
        let bench = Bench::new().await;
        let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
        let vim = bench.vim().await;
        let chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Self {
            bench,
            vnfd,
            vim,
            chance,
            vnfs: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Sends a request in one of the two versions.
    async fn send(&mut self, method: Method, path: &str, body: Value) -> Response {
        let v1 = self.chance.below(2) == 0;
        let path = if v1 {
            path.replace("/vnflcm/v2/", "/vnflcm/v1/")
        } else {
            path.to_owned()
        };
        let mut request = self.bench.bare(method.clone(), &path);
        request = request.header("version", if v1 { "1.3.0" } else { "2.3.0" });
        let response = self
            .bench
            .send(if body.is_null() {
                request
            } else {
                request.json(&body)
            })
            .await;
        self.calls
            .push(format!("{method} {path} -> {}", response.status));
        response
    }

    fn expect(&self, response: &Response, status: u16) {
        assert_eq!(
            response.status,
            status,
            "{response:?}\n{}",
            self.calls.join("\n")
        );
    }

    /// Starts an operation if possible and waits for its end; returns its id.
    async fn begin(&mut self, path: &str, body: Value, possible: bool) -> Option<String> {
        let method = if path.matches('/').count() == 4 {
            Method::PATCH
        } else {
            Method::POST
        };
        let response = self.send(method, path, body).await;
        self.expect(&response, if possible { 202 } else { 409 });
        if !possible {
            return None;
        }
        let op = response.created_id();
        self.bench.ended(&op).await;
        Some(op)
    }

    async fn step(&mut self) {
        let call = Call::by(&mut self.chance);
        if let Call::Create = call {
            return self.create().await;
        }
        if let Call::Nobody = call {
            let response = self
                .send(Method::GET, &format!("{INSTANCES}/nobody"), Value::Null)
                .await;
            return self.expect(&response, 404);
        }
        if self.vnfs.is_empty() {
            return;
        }
        let number = self.chance.below(self.vnfs.len());
        let mut vnf = self.vnfs[number].clone();
        match call {
            Call::Delete => return self.delete(number).await,
            Call::Instantiate { fails } => self.instantiate(&mut vnf, fails).await,
            Call::Terminate | Call::Heal | Call::Scale | Call::Rename => {
                self.change(&mut vnf, call).await;
            }
            _ => self.decide(&mut vnf, call).await,
        }
        self.is_as(&vnf).await;
        self.vnfs[number] = vnf;
    }

    async fn create(&mut self) {
        let body = json!({"vnfdId": self.vnfd});
        let response = self.send(Method::POST, INSTANCES, body).await;
        self.expect(&response, 201);
        let vnf = Vnf {
            id: response.id(),
            name: None,
            instantiated: false,
            level: 0,
            stopped: None,
            ended: Vec::new(),
        };
        self.is_as(&vnf).await;
        self.vnfs.push(vnf);
    }

    async fn delete(&mut self, number: usize) {
        let vnf = self.vnfs[number].clone();
        let path = format!("{INSTANCES}/{}", vnf.id);
        let response = self.send(Method::DELETE, &path, Value::Null).await;
        let possible = vnf.is_free() && !vnf.instantiated;
        self.expect(&response, if possible { 204 } else { 409 });
        if possible {
            self.vnfs.remove(number);
            let deleted = self.send(Method::GET, &path, Value::Null).await;
            self.expect(&deleted, 404);
        }
    }

    async fn instantiate(&mut self, vnf: &mut Vnf, fails: bool) {
        self.bench.world.fails.store(fails, SeqCst);
        // Its body differs between the versions; `v1.rs` tests that.
        let body =
            json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": self.vim}}});
        let path = format!("{INSTANCES}/{}/instantiate", vnf.id);
        let request = self.bench.request(Method::POST, &path).json(&body);
        let response = self.bench.send(request).await;
        self.calls.push(format!(
            "POST {path} (fails: {fails}) -> {}",
            response.status
        ));
        let possible = vnf.is_free() && !vnf.instantiated;
        self.expect(&response, if possible { 202 } else { 409 });
        if possible {
            self.bench.ended(&response.created_id()).await;
            Self::came_to(vnf, response.created_id(), fails);
        }
    }

    fn came_to(vnf: &mut Vnf, op: String, fails: bool) {
        vnf.instantiated = !fails;
        vnf.level = 0;
        if fails {
            vnf.stopped = Some(op);
        } else {
            vnf.ended.push(op);
        }
    }

    async fn change(&mut self, vnf: &mut Vnf, call: Call) {
        let path = format!("{INSTANCES}/{}", vnf.id);
        let name = format!("name-{}", self.calls.len());
        let level = self.chance.below(4);
        let (path, body, possible) = match call {
            Call::Terminate => {
                let body = json!({"terminationType": "FORCEFUL"});
                (
                    format!("{path}/terminate"),
                    body,
                    vnf.is_free() && vnf.instantiated,
                )
            }
            Call::Heal => (
                format!("{path}/heal"),
                json!({}),
                vnf.is_free() && vnf.instantiated,
            ),
            Call::Scale => (
                format!("{path}/scale_to_level"),
                json!({"scaleInfo": [{"aspectId": "web", "scaleLevel": level}]}),
                vnf.is_free() && vnf.instantiated,
            ),
            _ => (path, json!({"vnfInstanceName": name}), vnf.is_free()),
        };
        let Some(op) = self.begin(&path, body, possible).await else {
            return;
        };
        vnf.ended.push(op);
        match call {
            Call::Terminate => vnf.instantiated = false,
            Call::Scale => vnf.level = level,
            Call::Rename => vnf.name = Some(name),
            _ => {}
        }
    }

    /// Controls an operation in FAILED_TEMP; an ended one refuses all controls.
    async fn decide(&mut self, vnf: &mut Vnf, call: Call) {
        let Some(op) = vnf.stopped.clone().or_else(|| vnf.ended.last().cloned()) else {
            return;
        };
        let (task, body) = match call {
            Call::Retry { .. } => ("retry", Value::Null),
            Call::Rollback => ("rollback", Value::Null),
            Call::Fail => ("fail", Value::Null),
            _ => ("cancel", json!({"cancelMode": "GRACEFUL"})),
        };
        if let Call::Retry { fails } = call {
            self.bench.world.fails.store(fails, SeqCst);
        }
        let response = self
            .send(Method::POST, &format!("{OPS}/{op}/{task}"), body)
            .await;
        let possible = vnf.stopped.is_some() && task != "cancel";
        let taken = if task == "fail" { 200 } else { 202 };
        self.expect(&response, if possible { taken } else { 409 });
        if !possible {
            return;
        }
        let end = self.bench.ended(&op).await;
        vnf.stopped = None;
        if let Call::Retry { fails } = call {
            Self::came_to(vnf, op, fails);
        } else {
            // A failed instantiation may have left resources, so the instance can be terminated.
            vnf.instantiated = task == "fail";
            vnf.ended.push(op);
        }
        let state = match call {
            Call::Retry { fails: true } => "FAILED_TEMP",
            Call::Retry { fails: false } => "COMPLETED",
            Call::Rollback => "ROLLED_BACK",
            _ => "FAILED",
        };
        assert_eq!(end["operationState"], state, "{}", self.calls.join("\n"));
    }

    /// Compares an instance with the model.
    async fn is_as(&self, vnf: &Vnf) {
        let current = self.bench.get(&format!("{INSTANCES}/{}", vnf.id)).await;
        let calls = self.calls.join("\n");
        let state = if vnf.instantiated {
            "INSTANTIATED"
        } else {
            "NOT_INSTANTIATED"
        };
        assert_eq!(
            current.body["instantiationState"], state,
            "{vnf:?}\n{calls}"
        );
        assert_eq!(
            current.body["vnfInstanceName"].as_str(),
            vnf.name.as_deref(),
            "{vnf:?}\n{calls}"
        );
        assert_eq!(
            current.body.get("instantiatedVnfInfo").is_some(),
            vnf.instantiated,
            "{calls}"
        );
        let levels = current.body.pointer("/instantiatedVnfInfo/scaleStatus");
        let expected = json!([{"aspectId": "web", "scaleLevel": vnf.level}]);
        let expected = vnf.instantiated.then_some(&expected);
        assert_eq!(levels, expected, "{vnf:?}\n{calls}");
        let links: Vec<_> = current.body["_links"].as_object().unwrap().keys().collect();
        assert_eq!(links, vnf.links(), "{vnf:?}\n{calls}");
    }

    /// Compares the lists with the model.
    async fn is_whole(&self) {
        let sorted = |mut ids: Vec<String>| {
            ids.sort();
            ids
        };
        let ids = |list: &Response| -> Vec<String> {
            let entries = list.body.as_array().unwrap();
            sorted(
                entries
                    .iter()
                    .map(|one| one["id"].as_str().unwrap().to_owned())
                    .collect(),
            )
        };
        let all = self
            .bench
            .get(&format!(
                "{INSTANCES}?filter=(neq,instantiationState,INSTANTIATED)"
            ))
            .await;
        let ours = self
            .vnfs
            .iter()
            .filter(|vnf| !vnf.instantiated)
            .map(|vnf| vnf.id.clone());
        assert_eq!(
            ids(&all),
            sorted(ours.collect()),
            "{}",
            self.calls.join("\n")
        );
        let stopped = self
            .bench
            .get(&format!("{OPS}?filter=(eq,operationState,FAILED_TEMP)"))
            .await;
        let ours = self.vnfs.iter().filter_map(|vnf| vnf.stopped.clone());
        assert_eq!(
            ids(&stopped),
            sorted(ours.collect()),
            "{}",
            self.calls.join("\n")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_calls_leave_the_resources_that_the_model_predicts() {
    for seed in 1..=SEQUENCES {
        let mut play = Play::new(seed).await;
        for _ in 0..CALLS {
            play.step().await;
        }
        play.is_whole().await;
    }
}
