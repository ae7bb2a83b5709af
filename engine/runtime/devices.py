"""A dedicated device's process: the back of a cut model, and no data."""

from __future__ import annotations

import gc

from engine.launch import Launch
from engine.plan.cluster import Party
from engine.runtime.crossing import DeviceHome
from engine.runtime.cuda_clock import span_clock
from engine.runtime.party import PartyBase
from engine.runtime.subject import load_back, torch_device
from engine.runtime.worker import seed_everything


class DedicatedDevice:
    """One device of a plan, alone in its process."""

    def __init__(self, launch: Launch, party: Party) -> None:
        self._launch = launch
        self._base = PartyBase(launch, party)

    def run(self) -> None:
        """Compute until the workers are done. Raises what went wrong, after telling the peers."""
        with self._base:
            self._run()

    def _run(self) -> None:
        base, launch = self._base, self._launch
        job, where = launch.job, torch_device(launch.devices[-1])
        seed_everything(job.training.seed, job.training.deterministic)
        back, task = load_back(launch, base.recording)
        home = DeviceHome(launch, base, back, task, where)
        del back  # it is the home's, and the front the workers'
        base.connect()
        base.recording.spans = span_clock(base.clock.now_ns, where)
        base.rendezvous.agree("model and key order", launch.model.checksum)
        device = home.open(base.recording.begin_step)
        gc.collect()
        gc.freeze()
        base.rendezvous.barrier("ready")
        seed_everything(job.training.seed + 1 + job.cluster.workers, job.training.deterministic)
        while device.serve():
            pass
        device.close()
        if launch.profile is None:
            home.give_state(device)
        base.part()
