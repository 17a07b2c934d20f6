"""Reports a playbook's tasks to the VNFM, and passes on the effects that the playbook set.

    - ansible.builtin.set_stats:
        data: {vnfm_effects: {metadata: {release: "7"}}}"""
import json
import sys

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: vnfm
type: stdout
short_description: progress and effects for the VNFM
description:
  - Tasks and failures go to standard error, the effects to standard output.
author: vnfm
"""


def say(text):
    # One line, so that no part of it is parsed as another message.
    print(" ".join(str(text).split()), file=sys.stderr, flush=True)


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "vnfm"

    def v2_playbook_on_play_start(self, play):
        say(f"play {play.get_name()}")

    def v2_playbook_on_task_start(self, task, is_conditional):
        # A name such as `40% starting the service` is progress.
        say(task.get_name())

    def v2_playbook_on_no_hosts_matched(self):
        say("warning: no host of the inventory fits this play")

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._failed("warning" if ignore_errors else "error", result)

    def v2_runner_on_unreachable(self, result):
        self._failed("error", result)

    def v2_runner_item_on_failed(self, result):
        self._failed("error", result)

    def v2_playbook_on_stats(self, stats):
        effects = dict(stats.custom.get("_run", {}).get("vnfm_effects", {}))
        effects.setdefault("schemaVersion", 1)
        print(json.dumps(effects), flush=True)

    def _failed(self, level, result):
        said = result._result
        if said.get("_ansible_no_log"):
            why = "its output is hidden (no_log)"
        else:
            why = said.get("msg") or said.get("stderr") or said.get("reason") or "no reason is given"
            more = said.get("stderr") or said.get("module_stderr")
            if more and more != why:
                why = f"{why}: {more[-1000:]}"
        say(f"{level}: {result._host.get_name()}: {result._task.get_name()}: {why}")
