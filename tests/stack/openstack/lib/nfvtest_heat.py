"""Heat's engine without notifications; why is told in up.sh."""
import heat.cmd.engine as engine_cmd  # first: it applies eventlet's monkey patches
from heat.engine import notification

notification.notify = lambda *args, **kwargs: None


def engine():
    return engine_cmd.main()
