"""Deals files of tests to pytest-xdist's workers so that a recording is read by as few of them as can be."""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

TOGETHER = {
    f"tests/test_{name}.py": files[0]
    for files in (
        ("report", "tables", "text_report", "schemas", "first_page", "html_report"),
        ("causes", "bounds", "place"),
        ("one_base", "one_step", "verdicts"),
    )
    for name in files
}
"""Files that look at the whole reports of the same recordings (`reported.RECORDINGS`), which take longest to make, and
files that look at the findings of the same runs (`judged.found_in`, `shared_analyses`)."""
APART = ("tests/test_profile_models.py",)
"""Files whose tests share nothing but wait for programs that import torch, so that they are dealt one by one."""


class BothEnds(LoadFileScheduling):
    """Deals whole files in the order in which they were collected: every other worker takes them from the end.

    Neighbours in that order look at the same recordings, which each worker keeps once it has read them.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if file in APART:
            return nodeid.partition("[")[0]
        return TOGETHER.get(file, file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self.nodes.index(node) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
