#!/usr/bin/python3
"""Makes Nova's fake hypervisor honest: every ACTIVE server gets a real host behind its address.

    hypervisor.py run | wait NAME STATE|gone [SECONDS] | down-all (no daemon running: HOST_DOWN for all)
  faults, done by the running daemon (NAME: server name, host name, id or address):
    fail-next-boot NAME       its next boot does not come up (NAME need not exist yet)
    slow-boot SECONDS [NAME]  from now on boots take so much longer;   reset: forgets both
    power-off NAME            the host dies, Nova still says ACTIVE;   power-on NAME: ends that, or a failed boot
    vanish NAME               Nova deletes it behind Heat's back;      nova-error NAME: Nova says ERROR, the host lives on
Environment: OPENSTACK_HOME (/var/tmp/vnfm-stack/openstack; its admin.openrc is read unless OS_AUTH_URL is set),
HYPERVISOR_HOME (state; $OPENSTACK_HOME/hypervisor), HYPERVISOR_NET (10.77.0.0/24: where a host needs a fixed or
floating address), HYPERVISOR_POLL (0.5 s), HYPERVISOR_TIMEOUT (120 s) and two idempotent commands
(default: ../kubernetes/hosts/host-up.sh and host-down.sh, whose own environment is handed through):
  HOST_UP  NAME IP/LEN MAC USER_DATA KEYS SERVER_JSON   returns 0 when the host answers (files, the last three; setsid!);
           environment: HOST_MAC, HOST_KEYS (if there is a key pair), HOST_USER_DATA (if a #! script is in the user data)
  HOST_DOWN NAME [--purge]                              without --purge the disk stays for the next HOST_UP
State for tests: $HYPERVISOR_HOME/servers.json = {id: {name, host, id, ip, mac, nova, state, boots, error, since ...}}, state:
waiting (not ACTIVE, or no address), booting, up, stopping, off (by Nova), failed (boot), dead (power-off).
"""
import base64, contextlib, email, fcntl, ipaddress, json, logging, os, pathlib, re, shlex, shutil, subprocess, sys
import tempfile, threading, time
from multiprocessing.connection import Client, Listener

ENV = os.environ.get
CLOUD = ENV("OPENSTACK_HOME", "/var/tmp/vnfm-stack/openstack")
HOME = ENV("HYPERVISOR_HOME", CLOUD + "/hypervisor")
STATE, SOCK = HOME + "/servers.json", HOME + "/control.sock"
NET = ipaddress.ip_network(ENV("HYPERVISOR_NET", "10.77.0.0/24"))
POLL, TIMEOUT = float(ENV("HYPERVISOR_POLL", "0.5")), float(ENV("HYPERVISOR_TIMEOUT", "120"))
RUNS = {"ACTIVE", "PASSWORD", "VERIFY_RESIZE"}                      # Nova status: a machine runs
STOPPED = {"SHUTOFF", "PAUSED", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED", "RESCUE"}
RESTARTS = {"reboot", "start", "unpause", "resume", "unshelve", "unrescue", "resize", "migrate", "evacuate"}
logging.basicConfig(format="%(asctime)s %(message)s")


def nova():
    """Nova as admin, by the catalog's `admin` interface: a fault proxy sits on `public`."""
    import requests
    from keystoneauth1 import adapter, identity, session
    env, http = dict(os.environ), requests.Session()
    if "OS_AUTH_URL" not in env:
        env.update(re.findall(r"(OS_\w+)=(\S+)", pathlib.Path(CLOUD, "admin.openrc").read_text()))
    http.trust_env = False                                          # no proxy from the environment
    auth = identity.V3Password(**{n: env["OS_" + n.upper()] for n in (
        "auth_url", "username", "password", "project_name", "user_domain_id", "project_domain_id")})
    session = session.Session(auth, session=http, timeout=20)
    return adapter.Adapter(session, service_type="compute", interface="admin", default_microversion="2.60")


def script(data):
    """What cloud-init would run: the user data itself or a part of it that starts with #!"""
    parts = [p for p in email.message_from_bytes(data).walk() if p.get_filename() in (None, "cfn-userdata")]
    return next((t for t in [data] + [p.get_payload(decode=True) or b"" for p in parts] if t.startswith(b"#!")), b"")


def read_state():
    return json.loads(pathlib.Path(STATE).read_text()) if os.path.exists(STATE) else {}


def write(path, content):
    pathlib.Path(path + ".new").write_bytes(content)
    os.replace(path + ".new", path)
    return path


class Hypervisor:
    def __init__(self):
        self.nova, self.lock, self.saved, self.fail, self.slow = nova(), threading.RLock(), None, [], {}
        self.hosts, self.view, self.full, self.last = read_state(), {}, 0, {}   # view: Nova's records, full: when we had all
        for h in self.hosts.values():                               # what a killed daemon left half done
            h["busy"], h["state"] = False, {"booting": "waiting", "stopping": "up"}.get(h["state"], h["state"])

    def set(self, h, **values):
        with self.lock:
            if values.get("state", h["state"]) != h["state"]:
                h["since"] = round(time.time(), 2)
                logging.warning("%s %s %s -> %s %s", h["host"], h["ip"], h["state"], values["state"], values.get("error", ""))
            h.update(values)
            text = json.dumps(self.hosts, indent=1)
            if text != self.saved:
                write(STATE, text.encode())
                self.saved = text

    def command(self, which, *args, **env):
        words = shlex.split(ENV(which, "%s/../kubernetes/hosts/%s.sh" % (sys.path[0], which.lower().replace("_", "-"))))
        try:
            with tempfile.TemporaryFile() as out:                   # a file: a host may hold it open
                code = subprocess.run(words + list(args), env=dict(os.environ, **env), stdin=subprocess.DEVNULL, stdout=out,
                                      stderr=subprocess.STDOUT, timeout=TIMEOUT).returncode
                out.seek(0)
                return "" if code == 0 else "%s: exit %d: %s" % (which, code, out.read().decode(errors="replace")[-300:])
        except (OSError, subprocess.TimeoutExpired) as e:
            return "%s: %s" % (which, e)

    def boot(self, h, server):
        names = (h["name"], h["host"], h["id"], h["ip"])
        doomed = [self.fail.remove(n) for n in names if n in self.fail]
        self.set(h, state="booting", error="")
        time.sleep(max([s for n, s in self.slow.items() if n in names + ("*",)] or [0]))
        if doomed:
            return self.set(h, state="failed", error="fail-next-boot")
        pair, user = server.get("key_name"), {"user_id": server["user_id"]}
        r = pair and self.nova.get("/os-keypairs/" + pair, params=user, raise_exc=False)
        key = r.json()["keypair"]["public_key"].strip() + "\n" if r else ""            # a 404 is false: the pair is gone
        data, where = base64.b64decode(server.get("OS-EXT-SRV-ATTR:user_data") or ""), "%s/hosts/%s/" % (HOME, h["host"])
        os.makedirs(where, mode=0o700, exist_ok=True)
        files = [write(where + "user-data", data), write(where + "keys", key.encode()),
                 write(where + "server.json", json.dumps(server, indent=1).encode())]
        error = self.command("HOST_UP", h["host"], "%s/%d" % (h["ip"], NET.prefixlen), h["mac"], *files, HOST_MAC=h["mac"],
                             HOST_KEYS=files[1] if key else "",
                             HOST_USER_DATA=write(where + "script", script(data)) if script(data) else "")
        self.set(h, state="failed" if error else "up", error=error, boots=h["boots"] + (not error))

    def down(self, h, then, *purge):
        self.set(h, state="stopping")
        self.set(h, error=self.command("HOST_DOWN", h["host"], *purge), state=then)

    def bury(self, h):
        self.down(h, "off", "--purge")
        with self.lock:
            self.set(self.hosts.pop(h["id"]))
        shutil.rmtree("%s/hosts/%s" % (HOME, h["host"]), ignore_errors=True)

    def job(self, h, *steps):                                       # in order for one host, hosts in parallel
        def work():
            try:
                for step, *args in steps:
                    step(h, *args)
            except Exception as e:                                  # Nova would not say the key: next poll again
                self.set(h, state="waiting", error=repr(e))
            self.set(h, busy=False)
        self.set(h, busy=True)
        threading.Thread(target=work, daemon=True).start()

    def admit(self, s):
        host = re.sub(r"[^a-z0-9-]+", "-", s["name"].lower())[:32].strip("-") or "host"
        if any(o["host"] == host for o in self.hosts.values()):
            host = "%s-%s" % (host, s["id"][:8])
        return self.hosts.setdefault(s["id"], dict(
            name=s["name"], host=host, id=s["id"], ip="", mac="", nova=s["status"], state="waiting", boots=0, error="",
            since=round(time.time(), 2), seen="", busy=False))

    def news(self, h, now):
        """The actions asked of Nova since the last look; a status that came and went between two polls is here."""
        if self.last.get(h["id"], (None,))[0] != now:
            self.last[h["id"]] = (now, time.time())
        elif h["seen"] and time.time() - self.last[h["id"]][1] > 3:
            return set()                                            # (Nova's `updated` counts whole seconds)
        acts = self.nova.get("/servers/%s/os-instance-actions" % h["id"]).json()["instanceActions"]  # newest first
        ids = [a["request_id"] for a in acts]
        new = acts[:ids.index(h["seen"])] if h["seen"] in ids else []
        if new and self.nova.get("/servers/" + h["id"]).json()["server"]["OS-EXT-STS:task_state"]:
            return None                                             # still at it
        h["seen"] = ids[0] if ids else ""
        return {a["action"] for a in new}

    def look(self, s):
        """Compares one server with its host and starts what is missing."""
        h = self.hosts.get(s["id"]) or self.admit(s)
        self.set(h, nova=s["status"], name=s["name"])
        ports = [a for net in s["addresses"].values() for a in net if ipaddress.ip_address(a["addr"]) in NET]
        ip, mac = (ports[0]["addr"], ports[0]["OS-EXT-IPS-MAC:mac_addr"]) if ports else ("", "")
        busy = h["busy"] or s["OS-EXT-STS:task_state"]
        new = None if busy else self.news(h, (s["status"], s["updated"], s.get("OS-SRV-USG:launched_at"), ip))
        if new is None:
            return
        moved, powered, steps = ip != h["ip"], h["state"] in ("up", "dead", "failed"), []
        if "rebuild" in new or powered and (s["status"] in STOPPED or s["status"] in RUNS and (new & RESTARTS or moved)):
            steps = [(self.down, "off") + (("--purge",) if "rebuild" in new or moved else ())]
        taken = any(o["ip"] == ip and o is not h and o["state"] in ("up", "booting", "stopping") for o in self.hosts.values())
        if s["status"] in RUNS and ip and not taken and (steps or h["state"] in ("waiting", "off")):
            self.set(h, ip=ip, mac=mac)
            steps.append((self.boot, s))
        if steps:
            self.job(h, *steps)

    def poll(self):
        waiting = any(h["state"] == "waiting" for h in self.hosts.values())            # an address comes without a change
        full = time.time() > self.full + (5 if waiting else 20)     # in between: what changed, and if nothing did no details,
        since = time.strftime("&changes-since=%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3))     # for which Nova asks Neutron
        read = lambda what, when="": self.nova.get(what + "?all_tenants=1" + when).json()["servers"]
        servers = read("/servers/detail") if full else read("/servers", since) and read("/servers/detail", since)
        self.full, self.view = (time.time(), {}) if full else (self.full, self.view)
        self.view.update((s["id"], s) for s in servers)
        there = {i: s for i, s in self.view.items() if s["status"] not in ("DELETED", "SOFT_DELETED")}
        with self.lock:
            for h in [h for i, h in self.hosts.items() if i not in there and not h["busy"]]:
                self.job(h, (self.bury,))
            for s in there.values():
                self.look(s)

    def run(self):
        threading.Thread(target=self.serve, daemon=True).start()
        while True:
            try:
                self.poll()
            except Exception as e:                                  # Nova not there: the hosts stay as they are
                logging.warning("poll: %r", e)
            time.sleep(POLL)

    def order(self, verb, *args):
        found = [h for h in list(self.hosts.values()) if args and args[0] in (h["name"], h["host"], h["id"], h["ip"])]
        to_all = {"fail-next-boot": lambda name: self.fail.append(name),
                  "slow-boot": lambda seconds, name="*": self.slow.update({name: float(seconds)}),
                  "reset": lambda: (self.fail.clear(), self.slow.clear())}
        to_one = {"power-off": lambda h: self.down(h, "dead"),
                  "power-on": lambda h: self.set(h, state="off"),   # the next poll boots it
                  "vanish": lambda h: self.nova.delete("/servers/" + h["id"]),
                  "nova-error": lambda h: self.nova.post("/servers/%s/action" % h["id"], json={"os-resetState": {"state": "error"}})}
        if verb in to_one and len(found) != 1:
            raise ValueError("%d servers with that name" % len(found))
        to_one[verb](found[0]) if verb in to_one else to_all[verb](*args)
        logging.warning("order: %s %s", verb, args)

    def serve(self):
        pathlib.Path(SOCK).unlink(missing_ok=True)
        door = Listener(SOCK)
        while True:
            with contextlib.suppress(OSError, EOFError), door.accept() as conn:
                try:
                    conn.send(self.order(*conn.recv()))
                except Exception as e:
                    conn.send(repr(e))


def wait(name, state, seconds="60"):
    for _ in range(int(float(seconds) * 10)):
        found = [h for h in read_state().values() if name in (h["name"], h["host"], h["id"], h["ip"])]
        if any(h["state"] == state for h in found) or (state == "gone" and not found):
            return print(json.dumps(found))
        time.sleep(0.1)
    sys.exit("%s is not %s after %s s" % (name, state, seconds))


def main(verb="help", *args):
    if verb in ("run", "down-all"):
        os.makedirs(HOME, mode=0o700, exist_ok=True)
        fcntl.flock(guard := open(HOME + "/lock", "w"), fcntl.LOCK_EX | fcntl.LOCK_NB)     # one daemon
        hv = Hypervisor()
        for h in list(hv.hosts.values()) if verb == "down-all" else hv.run():
            hv.bury(h)
    elif verb in ("wait", "help"):
        wait(*args) if verb == "wait" else print(__doc__)
    else:
        with Client(SOCK) as door:
            door.send((verb,) + args)
            sys.exit(door.recv())


if __name__ == "__main__":
    main(*sys.argv[1:])
