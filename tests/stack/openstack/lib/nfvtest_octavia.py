"""Octavia provider without a data plane."""
import threading
import time

from octavia.api.drivers.driver_agent import driver_updater
from octavia.db import api, models
from octavia_lib.api.drivers import provider_base

KINDS = {"members": models.Member, "healthmonitors": models.HealthMonitor, "pools": models.Pool, "l7rules": models.L7Rule,
         "l7policies": models.L7Policy, "listeners": models.Listener, "loadbalancers": models.LoadBalancer}


class Provider(provider_base.ProviderDriver):
    """Whatever is PENDING_* becomes ACTIVE/ONLINE, or is deleted, half a second after the call."""

    def __init__(self):
        super().__init__()
        self.called = threading.Event()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            self.called.wait(5)              # every 5 s: what a killed process left
            self.called.clear()
            time.sleep(0.5)                  # the API commits after it has called us
            status = {}
            for name, model in KINDS.items():
                rows = api.get_session().query(model.id, model.provisioning_status).filter(
                    model.provisioning_status.like("PENDING%"))
                status[name] = [{"id": i, "provisioning_status": "DELETED"} if s == "PENDING_DELETE" else
                                {"id": i, "provisioning_status": "ACTIVE", "operating_status": "ONLINE"} for i, s in rows]
            gone = [row["id"] for row in status["loadbalancers"] if row["provisioning_status"] == "DELETED"]
            for name in ("listeners", "pools") if gone else ():  # `DELETE ...?cascade=true` marks only the load balancer
                children = api.get_session().query(KINDS[name].id).filter(KINDS[name].load_balancer_id.in_(gone))
                status[name] += [{"id": i, "provisioning_status": "DELETED"} for (i,) in children]
            if any(status.values()):
                driver_updater.DriverUpdater().update_loadbalancer_status(status)


def accept(self, *args, **kwargs):
    self.called.set()


for verb in ("loadbalancer_create loadbalancer_delete loadbalancer_failover loadbalancer_update listener_create "
             "listener_delete listener_update pool_create pool_delete pool_update member_create member_delete "
             "member_update member_batch_update health_monitor_create health_monitor_delete health_monitor_update "
             "l7policy_create l7policy_delete l7policy_update l7rule_create l7rule_delete l7rule_update").split():
    setattr(Provider, verb, accept)
