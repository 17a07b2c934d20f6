//! `vnfmctl link …`: shared virtual links, and the VNFs that use them.

use super::request;
use crate::args::{Format, Link, LinkCreation};
use crate::client::{Client, Outcome, read, segment};
use crate::output::{Column, Output};
use reqwest::Method;
use serde_json::{Value, json};

const LINKS: &str = "/vnfm/v1/links";
const COLUMNS: &[Column] = &[
    ("id", "/id"),
    ("name", "/name"),
    ("vim", "/vimId"),
    ("state", "/state"),
    ("resource", "/resourceId"),
    ("used by", "/usedBy"),
];
/// Shown by `show` in addition to the columns of the list.
const DETAILS: &[Column] = &[
    ("subnets", "/subnets"),
    ("namespace", "/namespace"),
    ("cni config", "/cniConfig"),
    ("created", "/createdAt"),
];

pub(super) async fn run(client: &Client, output: Output, command: Link) -> Outcome<()> {
    match command {
        Link::Create(args) => create(client, output, &args).await,
        Link::List(options) => {
            let all = client.listing(LINKS, &options, "").await?;
            output.chosen(&all, COLUMNS, options.fields.as_deref())
        }
        Link::Show { link } => {
            let found: Value = client.get(&at(&link)).await?;
            show(output, found)
        }
        Link::Delete { link } => {
            client
                .send(client.request(Method::DELETE, &at(&link)))
                .await?;
            let what = format!("deleted link {link}, and its network on the VIM");
            output.done(&what, &json!({"link": link}))
        }
    }
}

fn show(output: Output, mut link: Value) -> Outcome<()> {
    if output.0 == Format::Table {
        let subnets = link["subnets"].as_array();
        let cidrs = subnets.map(|all| all.iter().map(|one| one["cidr"].clone()).collect());
        link["subnets"] = cidrs.unwrap_or(Value::Null);
    }
    output.one(&link, &[COLUMNS, DETAILS].concat())
}

async fn create(client: &Client, output: Output, args: &LinkCreation) -> Outcome<()> {
    let post = client.request(Method::POST, LINKS).json(&body(args)?);
    let created: Value = read(client.send(post).await?).await?;
    let text = |member: &str| created[member].as_str().unwrap_or_default().to_owned();
    let (id, network) = (text("id"), text("resourceId"));
    let what = format!("link {id} is available; VNFs use it as resourceId {network}");
    output.done(&what, &created)
}

fn body(args: &LinkCreation) -> Outcome<Value> {
    let mut body = json!({"name": args.name, "vimId": args.vim});
    let subnet = |text: &String| {
        let (cidr, gateway) = text
            .split_once(',')
            .map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
        let mut subnet = json!({"cidr": cidr});
        if let Some(gateway) = gateway {
            subnet["gatewayIp"] = json!(gateway);
        }
        if args.no_dhcp {
            subnet["dhcpEnabled"] = json!(false);
        }
        subnet
    };
    if !args.subnet.is_empty() {
        body["subnets"] = args.subnet.iter().map(subnet).collect();
    }
    if let Some(namespace) = &args.namespace {
        body["namespace"] = json!(namespace);
    }
    if let Some(file) = &args.cni_config {
        body["cniConfig"] = request::object_body(Some(file))?;
    }
    Ok(body)
}

fn at(link: &str) -> String {
    format!("{LINKS}/{}", segment(link))
}
