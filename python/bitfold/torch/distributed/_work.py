"""torch's Work, for what torch itself waits: of calls that torch.distributed makes under the mode."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Work, _create_work_from_future

from ._group import Job


def future_on(device: torch.device) -> torch.futures.Future:
    return torch.futures.Future(devices=[device] if device.type == "cuda" else None)


def ended(written: list[Tensor]) -> Work:
    future = future_on(written[0].device)
    future.set_result(written)
    return _create_work_from_future(future)


class _UnderWay(Work):
    """Whose `wait` raises what the call raised. (The Work that torch makes of a future does not.)"""

    def __init__(self, job: Job, future: torch.futures.Future) -> None:
        super().__init__()
        self._job, self._future = job, future

    def wait(self, timeout: timedelta = timedelta()) -> bool:
        self._job.result(timeout.total_seconds() or None)
        return True

    def get_future(self) -> torch.futures.Future:
        return self._future


class _Carrier(dist.ProcessGroup):
    """Of what a group's function returns torch makes a Work that keeps the one in Python alive, as long as C++ has it."""

    def __init__(self, work: _UnderWay) -> None:
        super().__init__(0, 1)
        self._work = work

    def allreduce(self, tensors: list[Tensor], options: dist.AllreduceOptions) -> Work:
        return self._work


def under_way(job: Job, future: torch.futures.Future) -> Work:
    return dist.ProcessGroup.allreduce(_Carrier(_UnderWay(job, future)), [], dist.AllreduceOptions())
