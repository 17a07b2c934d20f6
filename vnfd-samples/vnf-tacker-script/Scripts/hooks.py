"""Hooks in the protocol of OpenStack Tacker: one method for each, pickled dictionaries in and out."""
import os
import pickle
import sys


class Hooks:
    def __init__(self, given):
        self.request = given["request"]
        self.instance = given["vnf_instance"]
        self.grant_request = given["grant_request"]
        self.folder = given["tmp_csar_dir"]
        self.state = given["user_script_err_handling_data"]

    def instantiate_start(self):
        if not os.path.isfile(os.path.join(self.folder, "Scripts/hooks.py")):
            raise Exception("the package is not in tmp_csar_dir")

    def instantiate_end(self):
        servers = self.instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
        site = self.request["additionalParams"].get("site", "nowhere")
        self.instance["metadata"] = {"site": site, "servers": len(servers)}
        return {"vnf_instance": self.instance}

    def heal_start(self):
        healed = [resource["resource"]["resourceId"] for resource in self.grant_request["removeResources"]]
        # Kept for a retry of this hook.
        self.state["attempts"] = self.state.get("attempts", 0) + 1
        sys.stderr.write(f"{len(healed)} servers will be replaced\n")
        self.instance["metadata"]["heals"] = self.instance["metadata"].get("heals", 0) + 1
        return {"vnf_instance": self.instance, "user_script_err_handling_data": self.state}

    def terminate_start(self):
        pass


def main():
    given = pickle.load(sys.stdin.buffer)
    output = getattr(Hooks(given), given["operation"])()
    sys.stdout.buffer.write(pickle.dumps(output or {}))
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
        os._exit(0)
    except Exception as error:
        sys.stderr.write(str(error))
        sys.stderr.flush()
        os._exit(1)
