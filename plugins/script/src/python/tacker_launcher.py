#!/usr/bin/env python3
"""Runs a script that was written for OpenStack Tacker: `tacker_launcher.py SCRIPT`, with the hook's request as JSON on
standard input.

    JSON  --> dictionaries named as Tacker's, pickled --> the script
    JSON  <-- effects <-- plain data only <-- pickle   <-- the script

It runs in the hook's sandbox, with no more rights than the script. What leaves the sandbox is JSON, which the VNFM checks
like the effects of any script; no other program of the VNFM writes or reads a pickle."""
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading

import vnfm

MAX_OUTPUT = 4 << 20  # bytes
DRAIN_SECONDS = 2  # for output of what the script left running
# Both the member of the dictionaries and the key of the checkpoint.
STATE = "user_script_err_handling_data"
INSTANCE = ("id", "vnfInstanceName", "vnfdId", "vnfProvider", "vnfProductName", "vnfSoftwareVersion", "vnfdVersion", "metadata")
# Operations without a grant in Tacker.
WITHOUT_GRANT = ("MODIFY_INFO", "CREATE_SNAPSHOT", "REVERT_TO_SNAPSHOT")


class BadOutput(Exception):
    """The script returned what is not accepted."""


class PlainUnpickler(pickle.Unpickler):
    """Makes dictionaries, lists, texts, numbers, booleans and None. Pickles that name a class or function are refused."""

    def find_class(self, module, name):
        raise BadOutput(f"it names `{module}.{name}`, and classes are not accepted")


def main():
    request, script = json.load(sys.stdin), sys.argv[1]
    given = tacker_request(request)
    code, output = run(script, pickle.dumps(given))
    try:
        returned = read(output)
        save_state(given[STATE], returned)
    except BadOutput:
        # The script's own error is the more important one.
        if code == 0:
            raise
    if code != 0:
        end_like(code)
    json.dump(effects(given["vnf_instance"], returned), sys.stdout)


def tacker_request(request):
    """The dictionaries that Tacker gives to its scripts, with what a hook knows."""
    return {
        "operation": request["hook"],
        "request": operation_params(request),
        "vnf_instance": vnf_instance(request),
        "grant_request": grant_request(request),
        "grant_response": None,
        "tmp_csar_dir": os.getcwd(),
        STATE: vnfm.checkpoint(STATE) or {},
    }


def operation_params(request):
    """The members of the request to the VNFM that hooks get, named as in SOL003."""
    params = {"additionalParams": request["additionalParams"]}
    scale, heal = request.get("scale") or {}, request.get("heal") or {}
    flavour, package = request.get("changeFlavour") or {}, request.get("changeCurrentPackage") or {}
    if request["operation"] == "SCALE_TO_LEVEL":
        params["scaleInfo"] = [{"aspectId": aspect, "scaleLevel": level} for aspect, level in scale["levels"].items()]
    if heal:
        params["vnfcInstanceId"] = [vnfc["id"] for vnfc in heal["vnfcs"]]
    found = {
        **taken(scale, "type", "aspectId", "numberOfSteps"),
        **taken(heal, "cause", "healScript"),
        **taken(request.get("operate") or {}, "changeStateTo", "stopType", "gracefulStopTimeout"),
        **taken(request.get("changeExternalConnectivity") or {}, "extVirtualLinks"),
        **taken(package, "vnfdId"),
    }
    if flavour:
        found["newFlavourId"] = flavour["flavourId"]
    return {**params, **found}


def taken(members, *names):
    return {name: members[name] for name in names if members.get(name) is not None}


def vnf_instance(request):
    """The VNF instance as SOL003 shows it, without logins of VIMs."""
    inventory, state = request["inventory"], request["instance"].get("vnfState")
    exists = state is not None or any(inventory.values())
    instance = {
        **taken(request["instance"], *INSTANCE),
        "instantiationState": "INSTANTIATED" if exists else "NOT_INSTANTIATED",
        "vimConnectionInfo": {},
    }
    if exists:
        vnfcs = inventory.get("vnfcResourceInfo", [])
        instance["instantiatedVnfInfo"] = {
            "vnfState": state or "STARTED",
            "vnfcInfo": [{"id": vnfc["id"], "vduId": vnfc["vduId"], "vnfcResourceInfoId": vnfc["id"]} for vnfc in vnfcs],
            "metadata": {},
            **inventory,
        }
    return instance


def grant_request(request):
    """The servers that come and go, as a grant request names them; no other resources."""
    if request["operation"] in WITHOUT_GRANT:
        return None
    added, removed = [], []
    for name in ("scale", "changeFlavour", "changeCurrentPackage"):
        change = request.get(name) or {}
        removed += change.get("vnfcsToRemove", []) + change.get("vnfcsToChange", [])
        added += [vnfc["vduId"] for vnfc in change.get("vnfcsAdded", [])]
    if request.get("scale"):
        # Known before they exist.
        added = [vdu for vdu, count in request["scale"].get("vnfcsToAdd", {}).items() for _ in range(count)]
    if request.get("heal"):
        removed += request["heal"]["vnfcs"]
        added += [vnfc["vduId"] for vnfc in request["heal"]["vnfcs"]]
    if request["operation"] == "TERMINATE":
        removed += request["inventory"].get("vnfcResourceInfo", [])
    return {
        "vnfInstanceId": request["instance"]["id"],
        "vnfdId": request["instance"]["vnfdId"],
        "operation": request["operation"],
        "isAutomaticInvocation": False,
        "addResources": [
            {"id": f"add-{number}", "type": "COMPUTE", "resourceTemplateId": vdu} for number, vdu in enumerate(added)
        ],
        "removeResources": [
            {"id": vnfc["id"], "type": "COMPUTE", "resourceTemplateId": vnfc["vduId"], "resource": vnfc["computeResource"]}
            for vnfc in removed
        ],
    }


def run(script, pickled):
    """Runs the script; its exit code and its standard output. Standard error is the hook's log."""
    # A handler, unlike SIG_IGN, is not inherited: the script gets the signal and ends, and this program after it.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with open(os.memfd_create("tacker-request"), "w+b") as stdin:
        stdin.write(pickled)
        stdin.seek(0)
        child = subprocess.Popen([sys.executable, script], stdin=stdin, stdout=subprocess.PIPE)
    output = bytearray()
    reader = threading.Thread(target=collect, args=(child, output), daemon=True)
    reader.start()
    code = child.wait()
    reader.join(DRAIN_SECONDS)
    if len(output) > MAX_OUTPUT:
        raise BadOutput(f"it is longer than {MAX_OUTPUT >> 20} MiB")
    return code, bytes(output)


def collect(child, output):
    """Reads standard output to its end; a script that writes too much is killed."""
    # Not `child.stdout.read`: its lock would be held when this program ends before the pipe.
    while piece := os.read(child.stdout.fileno(), 1 << 16):
        output += piece
        if len(output) > MAX_OUTPUT:
            return child.kill()


def read(output):
    """The dictionary that the script returned; empty if it returned none."""
    if not output.startswith(b"\x80"):
        if output.strip():
            print("warning: standard output of the script is not a pickle, and is ignored", file=sys.stderr)
        return {}
    try:
        value = PlainUnpickler(io.BytesIO(output)).load()
        # Also refuses bytes, and makes lists of tuples.
        value = json.loads(json.dumps(value, allow_nan=False))
    except BadOutput:
        raise
    except Exception as error:
        raise BadOutput(f"it is not plain data: {error}") from error
    if value is not None and not isinstance(value, dict):
        raise BadOutput("it is not a dictionary")
    return value or {}


def save_state(earlier, returned):
    """Keeps the script's data for a later attempt of this hook."""
    if STATE in returned:
        vnfm.save_checkpoint(STATE, {**earlier, **dictionary(returned, STATE)})


def effects(given, returned):
    """The effects of the difference between the instance that the script got and the one that it returned."""
    for name in returned.keys() - {"vnf_instance", STATE}:
        print(f"warning: ignoring `{name}`, which the script returned", file=sys.stderr)
    result = {"schemaVersion": 1}
    if returned.get("vnf_instance") is None:
        return result
    before, after = dict(given), dict(dictionary(returned, "vnf_instance"))
    old = before.pop("metadata", {})
    new = dictionary(after, "metadata") if "metadata" in after else old
    after.pop("metadata", None)
    other = sorted(changed("vnf_instance", before, after))
    if other:
        raise BadOutput(f"it changes {', '.join(other[:5])}; only `vnf_instance.metadata` can be changed")
    result["metadata"] = {name: new.get(name) for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    return result


def dictionary(members, name):
    value = members.get(name)
    if not isinstance(value, (dict, type(None))):
        raise BadOutput(f"`{name}` is not a dictionary")
    return value or {}


def changed(path, before, after):
    """The paths of members that differ; an absent one equals None."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() | after.keys():
            yield from changed(f"{path}.{name}", before.get(name), after.get(name))
    elif before != after:
        yield f"`{path}`"


def end_like(code):
    """Ends as the script did: with its exit code, or by the signal that ended it."""
    if code < 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    try:
        main()
    except BadOutput as error:
        sys.exit(f"error: the script's standard output is not accepted: {error}")
    except vnfm.Error as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(75 if error.kind == "UNAVAILABLE" else 1)
