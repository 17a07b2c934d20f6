//! `vnfmctl vnf …`: VNF instances and the operations on them.

use crate::args::{
    Format, Healing, Instantiation, ListOptions, Modification, Named, Operating, SkipHooks, Task,
    TaskOptions, Termination, Vnf, VnfCommand, command_name,
};
use crate::client::{Client, Outcome, local};
use crate::commands::request::{
    object_body, read, refuse_placeholders, request_body, set, task_body,
};
use crate::commands::{package, plan, policy, scaling, snapshot};
use crate::output::{Column, Output};
use crate::watch;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use vnfm::lcm::{
    Operation, create_snapshot, heal, instantiate, modify_info, operate, revert_to_snapshot,
    terminate,
};
use vnfm::ports::{RETAIN_PARAM, REUSE_PARAM};
use vnfm_types::LcmOperationState;

pub(super) const INSTANCES: &str = "/vnflcm/v2/vnf_instances";
const COLUMNS: &[Column] = &[
    ("name", "/vnfInstanceName"),
    ("id", "/id"),
    ("product", "/vnfProductName"),
    ("state", "/instantiationState"),
    ("flavour", "/instantiatedVnfInfo/flavourId"),
    ("vnfcs", "/instantiatedVnfInfo/vnfcResourceInfo"),
];
const DETAILS: &[Column] = &[
    ("name", "/vnfInstanceName"),
    ("id", "/id"),
    ("description", "/vnfInstanceDescription"),
    ("vnfdId", "/vnfdId"),
    ("provider", "/vnfProvider"),
    ("product", "/vnfProductName"),
    ("software", "/vnfSoftwareVersion"),
    ("state", "/instantiationState"),
    ("vnfState", "/instantiatedVnfInfo/vnfState"),
    ("flavour", "/instantiatedVnfInfo/flavourId"),
    ("scale", "/scale"),
    ("vims", "/vims"),
    ("metadata", "/metadata"),
];
const VNFCS: &[Column] = &[
    ("vdu", "/vduId"),
    ("vnfc", "/metadata/name"),
    ("vnfc id", "/id"),
    ("type", "/computeResource/vimLevelResourceType"),
    ("resource", "/computeResource/resourceId"),
    ("state", "/metadata/vnfcState"),
    ("addresses", "/addresses"),
];

pub(super) async fn run(client: &Client, output: Output, command: VnfCommand) -> Outcome<()> {
    let command = match command {
        VnfCommand::Typed(command) => command,
        VnfCommand::Task(Named(operation), args) => {
            return begin(client, output, task(operation, args)?).await;
        }
        VnfCommand::Plan(command) => {
            return Box::pin(run(&client.planning(), output, *command)).await;
        }
    };
    match command {
        Vnf::Create {
            vnfd,
            package,
            name,
            description,
        } => {
            let vnfd = vnfd_id(client, vnfd, package).await?;
            create(client, output, &json!({"vnfdId": vnfd, "vnfInstanceName": name, "vnfInstanceDescription": description})).await
        }
        Vnf::List(args) => list(client, output, &args).await,
        Vnf::Show { vnf } => show(output, &find(client, &vnf).await?),
        Vnf::Delete { vnf } => {
            let found = find(client, &vnf).await?;
            let path = format!("{INSTANCES}/{}", id_of(&found));
            client.send(client.request(Method::DELETE, &path)).await?;
            output.done(&format!("deleted VNF instance {vnf}"), &found)
        }
        Vnf::Modify(args) => begin(client, output, modify(args)?).await,
        Vnf::Policy(command) => policy::run(client, output, command).await,
        Vnf::Abandon { vnf, reason, force } => abandon(client, output, &vnf, (reason, force)).await,
        Vnf::Instantiate(args) => {
            let request = instantiate(client, args).await?;
            begin(client, output, request).await
        }
        Vnf::Heal(args) => begin(client, output, heal(client, args).await?).await,
        Vnf::Scale(args) => scaling::scale(client, output, args).await,
        Vnf::ScaleToLevel(args) => scaling::to_level(client, output, args).await,
        Vnf::Operate(args) => begin(client, output, operate(client, args).await?).await,
        Vnf::CreateSnapshot(args) => {
            let body = snapshot::creation(client, &args).await?;
            let what = (&create_snapshot::OPERATION, args.vnf);
            begin(client, output, BeginRequest::new(what, body, args.common)).await
        }
        Vnf::RevertToSnapshot(args) => {
            let body = snapshot::reversion(&args)?;
            let what = (&revert_to_snapshot::OPERATION, args.vnf);
            begin(client, output, BeginRequest::new(what, body, args.common)).await
        }
        Vnf::Terminate(args) => begin(client, output, terminate(args)?).await,
    }
}

async fn instantiate(client: &Client, args: Instantiation) -> Outcome<BeginRequest> {
    let mut body = read(&args.request)?;
    for param in args.params {
        set(&mut body["additionalParams"], &param)?;
    }
    if !args.volumes.is_empty() {
        body["additionalParams"][REUSE_PARAM] = json!(args.volumes);
    }
    if let Some(vim) = args.vim {
        let vim = super::vim::find(client, &vim).await?;
        body["vimConnectionInfo"] =
            json!({"vim1": {"vimId": vim["id"], "vimType": vim["vimType"]}});
    }
    Ok(BeginRequest {
        vnf: args.vnf,
        operation: &instantiate::OPERATION,
        body,
        skip: None,
        cascade: false,
        watch: args.watch,
    })
}

async fn heal(client: &Client, args: Healing) -> Outcome<BeginRequest> {
    let mut body = task_body(&args.common)?;
    if args.all {
        set(&mut body["additionalParams"], "all=true")?;
    }
    if !args.vnfcs.is_empty() {
        let instance = find(client, &args.vnf).await?;
        let ids = args.vnfcs.iter().map(|vnfc| vnfc_id(&instance, vnfc));
        body["vnfcInstanceId"] = ids.collect::<Outcome<_>>()?;
    }
    if let Some(cause) = args.cause {
        body["cause"] = json!(cause);
    }
    Ok(BeginRequest::new(
        (&heal::OPERATION, args.vnf),
        body,
        args.common,
    ))
}

async fn operate(client: &Client, args: Operating) -> Outcome<BeginRequest> {
    let mut body = task_body(&args.common)?;
    if args.start {
        body["changeStateTo"] = json!("STARTED");
    }
    if args.stop {
        body["changeStateTo"] = json!("STOPPED");
        body["stopType"] = json!("FORCEFUL");
    }
    if let Some(seconds) = args.graceful {
        body["stopType"] = json!("GRACEFUL");
        if let Some(seconds) = seconds {
            body["gracefulStopTimeout"] = json!(seconds);
        }
    }
    if !args.vnfcs.is_empty() {
        let instance = find(client, &args.vnf).await?;
        let ids = args.vnfcs.iter().map(|vnfc| vnfc_id(&instance, vnfc));
        body["vnfcInstanceId"] = ids.collect::<Outcome<_>>()?;
    }
    Ok(BeginRequest::new(
        (&operate::OPERATION, args.vnf),
        body,
        args.common,
    ))
}

/// The id of a VNFC that is named by id or name. The server refuses an unknown one, and lists those that exist.
fn vnfc_id<'a>(instance: &'a Value, id_or_name: &'a str) -> Outcome<&'a str> {
    let vnfcs = instance
        .pointer("/instantiatedVnfInfo/vnfcResourceInfo")
        .and_then(Value::as_array);
    let vnfcs = vnfcs.map_or(&[][..], Vec::as_slice);
    if vnfcs.iter().any(|vnfc| vnfc["id"] == id_or_name) {
        return Ok(id_or_name);
    }
    let named: Vec<_> = vnfcs
        .iter()
        .filter(|vnfc| {
            vnfc.pointer("/metadata/name")
                .is_some_and(|name| name == id_or_name)
        })
        .filter_map(|vnfc| vnfc["id"].as_str())
        .collect();
    match named[..] {
        [] => Ok(id_or_name),
        [id] => Ok(id),
        _ => Err(local(format!(
            "several VNFCs are named `{id_or_name}`, use an ID: {}",
            named.join(", ")
        ))),
    }
}

fn terminate(args: Termination) -> Outcome<BeginRequest> {
    let mut body = task_body(&args.common)?;
    if let Some(seconds) = args.graceful {
        body["terminationType"] = json!("GRACEFUL");
        if let Some(seconds) = seconds {
            body["gracefulTerminationTimeout"] = json!(seconds);
        }
    } else if args.common.request.is_none() {
        body["terminationType"] = json!("FORCEFUL");
    }
    match args.retain.as_slice() {
        [] => {}
        names if names.iter().any(|name| name == "all") => {
            body["additionalParams"][RETAIN_PARAM] = json!("all");
        }
        names => body["additionalParams"][RETAIN_PARAM] = json!(names),
    }
    let request = BeginRequest::new((&terminate::OPERATION, args.vnf), body, args.common);
    Ok(BeginRequest {
        cascade: args.cascade,
        ..request
    })
}

pub(super) async fn find(client: &Client, id_or_name: &str) -> Outcome<Value> {
    client
        .find(INSTANCES, "vnf", &["vnfInstanceName"], id_or_name)
        .await
}

pub(super) fn id_of(instance: &Value) -> &str {
    instance["id"].as_str().unwrap_or_default()
}

async fn vnfd_id(client: &Client, vnfd: Option<String>, package: Option<String>) -> Outcome<Value> {
    match (vnfd, package) {
        (Some(vnfd), _) => Ok(Value::String(vnfd)),
        (None, Some(package)) => Ok(package::find(client, &package).await?["vnfdId"].clone()),
        (None, None) => Err(local("pass --vnfd or --package")),
    }
}

async fn list(client: &Client, output: Output, options: &ListOptions) -> Outcome<()> {
    let all = client.listing(INSTANCES, options, "instantiatedVnfInfo/vnfcResourceInfo");
    output.chosen(&all.await?, COLUMNS, options.fields.as_deref())
}

async fn create(client: &Client, output: Output, body: &Value) -> Outcome<()> {
    let mut body = body.clone();
    if let Some(members) = body.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    let created: Value = client
        .json(client.request(Method::POST, INSTANCES).json(&body))
        .await?;
    let name = created["vnfInstanceName"]
        .as_str()
        .map(|name| format!("{name} as "))
        .unwrap_or_default();
    output.done(
        &format!("created VNF instance {name}{}", id_of(&created)),
        &created,
    )
}

fn show(output: Output, instance: &Value) -> Outcome<()> {
    if output.0 != Format::Table {
        return output.one(instance, DETAILS);
    }
    let mut row = instance.clone();
    let vims = instance["vimConnectionInfo"]
        .as_object()
        .into_iter()
        .flatten();
    row["vims"] = vims
        .map(|(key, vim)| Value::from(vim_line(key, vim)))
        .collect();
    row["scale"] = scaling::levels(instance).into();
    output.one(&row, DETAILS)?;
    let vnfcs = instance
        .pointer("/instantiatedVnfInfo/vnfcResourceInfo")
        .and_then(Value::as_array);
    let Some(vnfcs) = vnfcs.filter(|vnfcs| !vnfcs.is_empty()) else {
        return Ok(());
    };
    let with_addresses = |vnfc: &Value| {
        let mut vnfc = vnfc.clone();
        vnfc["addresses"] = addresses(&vnfc);
        vnfc
    };
    output.list(&vnfcs.iter().map(with_addresses).collect::<Vec<_>>(), VNFCS)
}

fn vim_line(key: &str, vim: &Value) -> String {
    let id = vim["vimId"].as_str().unwrap_or("inline in the request");
    format!(
        "{key} = {id} ({})",
        vim["vimType"].as_str().unwrap_or_default()
    )
}

/// All addresses of a VNFC, on all its connection points.
fn addresses(vnfc: &Value) -> Value {
    let list = |value: &Value, member: &str| value[member].as_array().cloned().unwrap_or_default();
    let protocols = list(vnfc, "vnfcCpInfo")
        .into_iter()
        .flat_map(|cp| list(&cp, "cpProtocolInfo"));
    let groups = protocols.flat_map(|protocol| list(&protocol["ipOverEthernet"], "ipAddresses"));
    groups.flat_map(|group| list(&group, "addresses")).collect()
}

async fn abandon(
    client: &Client,
    output: Output,
    vnf: &str,
    (reason, force): (String, bool),
) -> Outcome<()> {
    let found = find(client, vnf).await?;
    let force = if force { "?force=true" } else { "" };
    let path = format!("/vnfm/v1/vnf_instances/{}/abandon{force}", id_of(&found));
    let request = client.request(Method::POST, &path);
    client
        .send(client.with_audit(request, Some(&reason))?)
        .await?;
    let sentence =
        format!("abandoned VNF instance {vnf}; `vnfmctl orphans` lists the resources that it left");
    output.done(&sentence, &found)
}

fn modify(args: Modification) -> Outcome<BeginRequest> {
    let mut body = object_body(args.request.as_deref())?;
    let texts = [
        ("vnfInstanceName", args.name),
        ("vnfInstanceDescription", args.description),
    ];
    for (member, text) in texts {
        if let Some(text) = text {
            body[member] = json!(text);
        }
    }
    let values = [
        ("metadata", args.metadata),
        ("extensions", args.extensions),
        ("vnfConfigurableProperties", args.properties),
    ];
    for (member, all) in values {
        all.iter().try_for_each(|one| set(&mut body[member], one))?;
    }
    Ok(BeginRequest {
        vnf: args.vnf,
        operation: &modify_info::OPERATION,
        body,
        skip: None,
        cascade: false,
        watch: args.watch,
    })
}

/// An operation without options of its own.
fn task(operation: &'static Operation, args: Task) -> Outcome<BeginRequest> {
    Ok(BeginRequest {
        vnf: args.vnf,
        operation,
        body: request_body(args.request.as_deref())?,
        skip: Some(args.skip),
        cascade: false,
        watch: args.watch,
    })
}

/// An operation to begin on an instance.
pub(super) struct BeginRequest {
    pub(super) vnf: String,
    pub(super) operation: &'static Operation,
    pub(super) body: Value,
    pub(super) skip: Option<SkipHooks>,
    /// Whether the VNFs on clusters of this one are terminated first.
    pub(super) cascade: bool,
    pub(super) watch: bool,
}

impl BeginRequest {
    pub(super) fn new(
        (operation, vnf): (&'static Operation, String),
        body: Value,
        options: TaskOptions,
    ) -> Self {
        Self {
            vnf,
            operation,
            body,
            skip: Some(options.skip),
            cascade: false,
            watch: options.watch,
        }
    }
}

async fn begin(client: &Client, output: Output, begin: BeginRequest) -> Outcome<()> {
    let found = find(client, &begin.vnf).await?;
    begin_on(client, output, &found, begin).await
}

/// Begins an operation on the instance that was found.
pub(super) async fn begin_on(
    client: &Client,
    output: Output,
    found: &Value,
    begin: BeginRequest,
) -> Outcome<()> {
    refuse_placeholders(&begin.body)?;
    if client.plans() {
        let path = format!("/vnfm/v1/vnf_instances/{}/plan", id_of(found));
        let body = json!({"operation": begin.operation.kind, "request": begin.body});
        let request = client.request(Method::POST, &path).json(&body);
        let request = cascading(request, begin.cascade);
        let request = skipping(client, request, begin.skip)?;
        let what = (command_name(begin.operation), &*begin.vnf);
        return plan::show(client, output, request, what).await;
    }
    let instance = format!("{INSTANCES}/{}", id_of(found));
    let request = match begin.operation.task {
        Some(task) => client.request(Method::POST, &format!("{instance}/{task}")),
        None => client
            .request(Method::PATCH, &instance)
            .header("content-type", "application/merge-patch+json"),
    };
    let request = cascading(request.json(&begin.body), begin.cascade);
    let request = skipping(client, request, begin.skip)?;
    let op_id = client.task(request).await?;
    let name = command_name(begin.operation);
    report(client, output, &op_id, (&begin.vnf, name, begin.watch)).await
}

fn cascading(request: RequestBuilder, cascade: bool) -> RequestBuilder {
    if cascade {
        request.header("x-vnfm-cascade", "true")
    } else {
        request
    }
}

/// Names the hooks to skip in the headers of the request.
fn skipping(
    client: &Client,
    request: RequestBuilder,
    skip: Option<SkipHooks>,
) -> Outcome<RequestBuilder> {
    let Some(SkipHooks { hooks, reason }) = skip.filter(|skip| !skip.hooks.is_empty()) else {
        return Ok(request);
    };
    let request = client.with_audit(request, reason.as_deref())?;
    Ok(request.header("x-vnfm-skip-hooks", hooks.join(",")))
}

/// Prints that an operation was accepted, or watches it until it finishes.
async fn report(
    client: &Client,
    output: Output,
    op_id: &str,
    (vnf, task, watch): (&str, &str, bool),
) -> Outcome<()> {
    if !watch {
        let sentence = format!("{task} of {vnf} accepted as operation {op_id}");
        return output.done(&sentence, &json!({"vnfLcmOpOccId": op_id}));
    }
    watch::operation(client, op_id, LcmOperationState::Completed).await?;
    let op: Value = client
        .get(&format!("/vnflcm/v2/vnf_lcm_op_occs/{op_id}"))
        .await?;
    output.done(
        &format!("{task} of {vnf} is COMPLETED (operation {op_id})"),
        &op,
    )
}
