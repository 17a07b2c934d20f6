"""What schemathesis does beside what the documents say.

Identifiers in paths: every other one is of something that is there, so that requests get past "there is no such thing".
Requests that may wait do not wait for long.

Where an official document says of a header what HTTP says otherwise, it is HTTP that is asked for: a request without
`Accept` takes everything (RFC 9110 12.5.1), content without `Content-Type` is bytes (8.3), and `Last-Modified` is a date
of HTTP (8.8.2), not of RFC 3339.
"""

import os
import random

import requests
import schemathesis

SERVER = os.environ["VNFM_JUDGE_SERVER"]
LISTS = {
    "vnfInstanceId": "/vnflcm/v2/vnf_instances",
    "vnfLcmOpOccId": "/vnflcm/v2/vnf_lcm_op_occs",
    "subscriptionId": "/vnflcm/v2/subscriptions",
    "vnfPkgId": "/vnfpkgm/v2/vnf_packages",
    "vimId": "/vnfm/v1/vims",
}
LOOKS_AT_ONCE = 50

# What the official document of packages calls an archive.
schemathesis.serializer.alias("application/binary", "application/octet-stream")

chance = random.Random(1)
known = {}
seen = {}


def ids(name):
    """Identifiers of what is there, looked up again now and then."""
    seen[name] = seen.get(name, -1) + 1
    if seen[name] % LOOKS_AT_ONCE == 0:
        answer = requests.get(SERVER + LISTS[name], headers={"Version": "2.3.0"}, timeout=60)
        known[name] = [entry["id"] for entry in answer.json()] if answer.ok else []
    return known[name]


def headers_as_http(part):
    """Mends what a document says of headers, wherever in it."""
    if isinstance(part, list):
        for one in part:
            headers_as_http(one)
    if not isinstance(part, dict):
        return
    if part.get("in") == "header" and part.get("name") in ("Accept", "Content-Type"):
        part["required"] = False
    for name, header in part.items():
        if name == "Last-Modified" and isinstance(header, dict):
            header.get("schema", {}).pop("format", None)
        headers_as_http(header)


@schemathesis.hook
def before_load_schema(context, raw_schema):
    headers_as_http(raw_schema)


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    for name in path_parameters or {}:
        if name in LISTS and chance.random() < 0.5:
            there = ids(name)
            if there:
                path_parameters[name] = chance.choice(there)
    return path_parameters


@schemathesis.hook
def before_call(context, case, **kwargs):
    wait = str((case.query or {}).get("wait_seconds", ""))
    if wait.isdecimal() and 1 < int(wait) <= 60:
        case.query["wait_seconds"] = 1
