"""What ranks have that are processes of one host: memory of the host's that all of them see, and GPUs that see one another's."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

from bitfold import _core

#: Whether ranks look for it. (Where there is none, all goes by the group's engine.)
LOOKED_FOR = True

_ROOM, _RESULTS = 8 << 20, 2 << 20  # bytes, of a rank, for each of two pieces: of what comes, and of results
_PAGE = 4096
_WHERE = struct.Struct("<qq16s")

Gather = Callable[[bytes], list[bytes]]


class Host:
    """A file in memory, which rank 0 makes and all map: of messages, by which the ranks meet, and of room for elements."""

    def __init__(self, file: int, rank: int, size: int, seconds: float) -> None:
        self._file, self._rank = os.fdopen(file, "r+b", buffering=0), rank
        self._mapped = mmap.mmap(file, self.bytes(size))
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)  # as long as this process is there
        self._memory = torch.frombuffer(self._mapped, dtype=torch.uint8)
        self._meeting = _core.Meeting(self._memory.data_ptr(), file, rank, size, seconds)
        self._begin = self._areas(size)

    def leave(self) -> None:
        """Whoever waits for this rank has an error."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, self._rank)

    @staticmethod
    def _areas(size: int) -> int:
        return -(-_core.Meeting.bytes(size) // _PAGE) * _PAGE

    @classmethod
    def bytes(cls, size: int) -> int:
        return cls._areas(size) + size * 2 * (_ROOM + _RESULTS)

    def exchange(self, mine: bytes) -> list[bytes]:
        """The messages of all ranks, of at most 512 bytes. What a rank wrote before is there for all of them then. Errors: RuntimeError where a rank
        has ended, or does not come in time."""
        return self._meeting.exchange(mine)

    def exchange_alike(self, mine: bytes) -> list[bytes] | None:
        """The same; none where all are alike."""
        return self._meeting.exchange_alike(mine)

    def _area(self, rank: int, begin: int, size: int) -> Tensor:
        at = self._begin + rank * 2 * (_ROOM + _RESULTS) + begin
        return self._memory[at : at + size]

    def room(self, rank: int, which: int) -> Tensor:
        """For what comes to that rank, of a piece."""
        return self._area(rank, which * _ROOM, _ROOM)

    def results(self, rank: int, which: int) -> Tensor:
        return self._area(rank, 2 * _ROOM + which * _RESULTS, _RESULTS)


def host_of(rank: int, size: int, seconds: float, gather: Gather) -> Host | None:
    """Made by all ranks at once; none where they are not of one host, or it does not let them. `gather`: messages of one length, by the engine."""
    made, where, file = None, bytes(_WHERE.size), -1
    if rank == 0 and LOOKED_FOR:
        with suppress(OSError):
            token = os.urandom(16)
            file = os.memfd_create(_name_of(token))
            os.ftruncate(file, Host.bytes(size))
            where = _WHERE.pack(os.getpid(), file, token)
    process, number, token = _WHERE.unpack(gather(where)[0])
    with suppress(OSError, ValueError):
        if LOOKED_FOR and process:
            made = Host(file if rank == 0 else _opened(process, number, token), rank, size, seconds)
    return made if all(flag == b"\1" for flag in gather(b"\1" if made else b"\0")) else None


def _name_of(token: bytes) -> str:
    return f"bitfold-{token.hex()}"


def _opened(process: int, number: int, token: bytes) -> int:
    """That process's file, of that name: on another host, or in another container, the process and the file of these numbers are others', and to
    open a file may do something already."""
    path = f"/proc/{process}/fd/{number}"
    if _name_of(token) not in os.readlink(path):
        raise FileNotFoundError(path)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def links_of(rank: int, size: int, seconds: float, device: torch.device, gather: Gather) -> _core.LinkedRanks | None:
    """Made by all ranks at once; none where a GPU does not reach the memory of all others."""

    def agreed(mine: bytes) -> list[bytes] | None:
        theirs = gather(mine.ljust(65, b"\0"))
        return [t[1:] for t in theirs] if all(t[:1] == b"\1" for t in theirs) else None

    made, handle = None, b"\0"
    with suppress(RuntimeError, ValueError):
        made = _core.LinkedRanks(rank, size, seconds, device.index)
        handle = b"\1" + made.handle()
    handles, opened = agreed(handle), b"\0"
    if handles is None or made is None:
        return None
    with suppress(RuntimeError, ValueError):
        made.open(handles)
        opened = b"\1"
    return made if agreed(opened) is not None else None
