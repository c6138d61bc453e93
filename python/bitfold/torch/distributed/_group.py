"""The communicator: what bitfold asks of a process group, and calls that have to be alike on all ranks."""

from __future__ import annotations

import os
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d
from torch.utils._python_dispatch import _disable_current_modes

from bitfold import _core

from ._host import Host, host_of, links_of

_CALL, _REST = struct.Struct("<q"), struct.Struct("<qq16s")  # of a header: the number of the call, and what is the same for calls that are alike
_HEADER_BYTES = 512
_MOST_KEPT = 1 << 24
_THREADS = "bitfold"  # that groups' calls run on: how their names begin


#: bitfold's own process groups, of which the mode takes no call over.
ENGINES: weakref.WeakSet[dist.ProcessGroup] = weakref.WeakSet()


class Disagreement(RuntimeError):
    """A call that is not the same on all ranks, or that one of them refuses: each rank has this error, and no result."""


class Copied:
    """A message in the CPU's memory, of a tensor on a GPU, which has it when it is waited for."""

    def __init__(self, message: Tensor, tensor: Tensor) -> None:
        self.message, self._tensor = message, tensor

    def wait(self) -> None:
        self._tensor.copy_(self.message)


class Job:
    """A call under way on a group's thread. On a GPU it is enqueued when the thread is done; whoever waits then has it ahead of what is enqueued next."""

    def __init__(self, group: "Group", future: Future, stream: torch.cuda.Stream | None) -> None:
        self._group, self._future, self._stream = group, future, stream

    def done(self) -> bool:
        if not self._future.done() or self._stream is None or self._future.exception():
            return self._future.done()
        return self._future.result()[1].query()

    def result(self, seconds: float | None = None) -> Any:
        """Errors: those of the call; TimeoutError; RuntimeError in a callback of a call on the group, behind which this one comes."""
        if not self._future.done() and self._group.is_amid_another():
            raise RuntimeError("bitfold: a callback waits for a call on its group that comes behind it")
        result, end = self._future.result(seconds)
        if end:
            torch.cuda.current_stream(self._stream.device).wait_event(end)
        return result


def engines_of(group: dist.ProcessGroup) -> dict[str, str]:
    """By the type of device, as torch.distributed names them."""
    return dict(pair.split(":") for pair in dist.get_backend_config(group).split(","))


_NAMES: dict[int, str] = {}  # of groups that are being made, by thread
_NAMING = threading.Lock()


@contextmanager
def _named_after(group: dist.ProcessGroup) -> Iterator[None]:
    """torch names a group by its ranks and by how many groups this process has made (older versions: is in), and waits for ranks that name it alike.
    Ranks of overlapping groups have made different numbers of bitfold's: so these count for nothing, and one is named by the group that it is for."""
    with _NAMING:
        if not _NAMES:
            own = distributed_c10d._process_group_name
            name = lambda *args, **kwargs: _NAMES.get(threading.get_ident()) or own(*args, **kwargs)
            name.own = own
            distributed_c10d._process_group_name = name
        _NAMES[threading.get_ident()] = "bitfold_" + blake2b(group.group_name.encode(), digest_size=16).hexdigest()
    try:
        yield
    finally:
        with _NAMING:
            del _NAMES[threading.get_ident()]
            if not _NAMES:
                distributed_c10d._process_group_name = distributed_c10d._process_group_name.own


class Group:
    """bitfold's own process group of the ranks of another one, so that its messages are never taken for others'. It asks for three functions of
    an engine: gather, and begin and end of messages between pairs. Ranks of one host meet in its memory instead (`host`). Calls run one after the
    other, in the order in which they were made; one that is made amid another, such as in a callback, comes at once. Each begins with the ranks'
    agreement on what it is. After an error of the engine, or any error behind the agreement, the ranks may stand at different places: no more
    calls then.

    Beside NCCL there is always an engine for the CPU's memory. By that one the ranks agree, so that no GPU is waited for, and that a rank which is
    not there is an error of a call, where NCCL ends the process. Without NCCL all messages go by it, and those of GPUs are copied there and back."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.rank, self.size = group.rank(), group.size()
        self._calls, self._is_amid, self._is_describing, self._owner, self._rooms = 0, False, False, None, {}
        self._no_more: str | None = None  # calls, and why
        self._ranks = dist.get_process_group_ranks(group)
        self._engine, self.has_nccl, self.host, self.gpu = None, False, None, None
        if self.size > 1:
            engines = engines_of(group)
            self.has_nccl = engines.get("cuda") == "nccl"
            of_cpus = dist.get_backend(group) if "cpu" in engines else "cpu:gloo"
            backend = f"cpu:{engines.get('cpu', 'gloo')},cuda:nccl" if self.has_nccl else of_cpus
            timeout = group._get_backend(torch.device("cpu" if "cpu" in engines else "cuda")).options._timeout
            self._seconds = timeout.total_seconds()
            with _named_after(group):
                self._engine = dist.new_group(self._ranks, timeout=timeout, backend=backend, use_local_synchronization=True)
            ENGINES.add(self._engine)
            self.host = host_of(self.rank, self.size, self._seconds, self.gather)
        self.lock, self._worker, self._last = threading.Lock(), None, None
        self.quick, self._gathered = {}, None
        self._greeted, self._streams, self._on, self._links = set(), {}, None, {}

    # ---- What an engine has to have

    def gather(self, mine: bytes) -> list[bytes]:
        """Of each rank as many, by way of the CPU's memory."""
        if self.size == 1:
            return [mine]
        if self.host and len(mine) <= _HEADER_BYTES:
            return self._try(lambda: self.host.exchange(mine))

        def by_the_engine() -> list[bytes]:
            all_of_them = torch.empty(self.size * len(mine), dtype=torch.uint8, device="cpu")
            dist.all_gather_into_tensor(all_of_them, torch.frombuffer(bytearray(mine), dtype=torch.uint8), group=self._engine)
            return [t.numpy().tobytes() for t in all_of_them.chunk(self.size)]

        return self._try(by_the_engine)

    def meet(self) -> None:
        """What all ranks of the host wrote to its memory is there then."""

        def all_at_once() -> None:
            if self.host.exchange_alike(b"meet" + _CALL.pack(self._calls)) is not None:
                raise RuntimeError("bitfold: the ranks are at different places of their calls")

        self._try(all_at_once)

    def begin(self, send: Sequence[Sequence[Tensor]], receive: Sequence[Sequence[Tensor]]) -> list[dist.Work | Copied]:
        """To each rank some messages, and from each some, whose lengths the receiver knows. What goes to this rank itself is left out, and so
        is what is empty. Two ranks begin what they send one another in the same order."""
        copied, sent = [], {}

        def room_for(t: Tensor) -> Tensor:
            if self.has_nccl or not t.is_cuda:
                return t
            copied.append(Copied(torch.empty_like(t, device="cpu"), t))
            return copied[-1].message

        def message_of(t: Tensor) -> Tensor:
            if self.has_nccl or not t.is_cuda:
                return t
            key = t.data_ptr(), t.numel()
            if key not in sent:  # as several ranks may have the same
                sent[key] = t.cpu()
            return sent[key]

        def messages() -> list[dist.Work]:
            wanted = []
            for step in range(1, self.size):
                to, origin = (self.rank + step) % self.size, (self.rank - step) % self.size
                wanted += [dist.P2POp(dist.irecv, room_for(t), self._ranks[origin], self._engine) for t in receive[origin] if t.numel()]
                wanted += [dist.P2POp(dist.isend, message_of(t), self._ranks[to], self._engine) for t in send[to] if t.numel()]
            return dist.batch_isend_irecv(wanted) if wanted else []

        return [*self._try(messages), *copied]

    def end(self, messages: Sequence[dist.Work | Copied]) -> None:
        self._try(lambda: [m.wait() for m in messages])

    def exchange(self, send: Sequence[Sequence[Tensor]], receive: Sequence[Sequence[Tensor]]) -> None:
        self.end(self.begin(send, receive))

    def greet(self, device: torch.device) -> None:
        """Ahead of the first messages from GPUs: NCCL begins with all ranks at once, and not every rank has messages."""
        if self.has_nccl and device.type == "cuda" and device not in self._greeted:
            self._try(lambda: dist.all_reduce(torch.zeros(1, device=device), group=self._engine))
            self._greeted.add(device)

    def links(self, device: torch.device) -> _core.LinkedRanks | None:
        """Where the GPUs of all ranks see one another's memory. Asked for by all ranks at once."""
        if self.host is None:
            return None
        if device not in self._links:
            self._links[device] = links_of(self.rank, self.size, self._seconds, device, self.gather)
        return self._links[device]

    def _try(self, talk: Callable[[], Any]) -> Any:
        if self._no_more:
            raise RuntimeError(f"bitfold: no more calls on this group, as {self._no_more}")
        try:
            if not torch._C._len_torch_dispatch_stack():
                return talk()
            with _disable_current_modes():  # strict's, which would refuse: nothing but bytes is moved here
                return talk()
        except BaseException as e:
            self._fail(e)
            raise

    def _fail(self, error: BaseException) -> None:
        """No more calls; and the other ranks of the host, where they wait for this one, need not wait longer."""
        self._no_more = self._no_more or f"an earlier one failed: {text_of(error)}"
        if self.host:
            self.host.leave()

    def forget(self) -> None:
        """In a process that was forked from a rank, which is none."""
        self._no_more = "this process was forked from the one that is its rank"
        self.lock, self._worker, self._last, self._owner = threading.Lock(), None, None, None

    # ---- Calls

    def to_its_end(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """A call, from its agreement on."""
        before = self._owner, self._is_amid
        self._owner, self._is_amid = threading.get_ident(), False
        try:
            return call(*arguments)
        except Disagreement:  # which all ranks have
            raise
        except BaseException as e:
            if self._is_amid:
                self._fail(e)
            raise
        finally:
            self._owner, self._is_amid = before

    def is_amid_another(self) -> bool:
        """Whether this thread is in a call already."""
        return self._owner == threading.get_ident()

    def _come_at_once(self, call: Callable[[], Any], stream: torch.cuda.Stream | None) -> Any:
        if self._is_describing:
            raise RuntimeError("bitfold: a call on a group amid the contributions of another one on it")
        with self._enqueued(stream):
            return self.to_its_end(call)

    def room(self, which: int, size: int, device: torch.device) -> Tensor:
        """Bytes for one call, of which two may have as many as they like; on CPUs they are kept for the next one, up to a limit, as new memory takes
        longer than what is sent there."""
        if device.type != "cpu":  # whose memory torch keeps
            return torch.empty(size, dtype=torch.uint8, device=device)
        room = self._rooms.get(which)
        if room is None or len(room) < size:
            room = torch.empty(size, dtype=torch.uint8, device="cpu")
            if size <= _MOST_KEPT:
                self._rooms[which] = room
        return room[:size]

    @staticmethod
    def header(line: str, *numbers: int) -> bytes:
        """Without the number of the call, which is ahead of it."""
        text = line.encode(errors="backslashreplace")
        rest = _HEADER_BYTES - _CALL.size
        return (_REST.pack(*numbers, blake2b(text, digest_size=16).digest()) + text)[:rest].ljust(rest, b"\0")

    def agree_on(self, header: bytes, device: torch.device) -> bool:
        """In a host's memory, whether all ranks make a call of this header, which is then next on the current stream. Otherwise agree() has what
        they sent."""
        if self._gathered:  # of this call, which is not alike
            return False
        mine = _CALL.pack(self._calls + 1) + header
        self._is_amid = True
        self._gathered = self._try(lambda: self.host.exchange_alike(mine))
        if self._gathered is not None:
            return False
        self._calls += 1
        on = self._on
        if on is None or on.device != device or on.cuda_stream != torch._C._cuda_getCurrentRawStream(device.index):
            self._follow(torch.cuda.current_stream(device))
        return True

    def agree(self, describe: Callable[[], tuple[str, int, int]]) -> list[tuple[int, int]]:
        """Two numbers of each rank, if all describe the call by the same line. `describe` checks the arguments of this rank, and gives its line and
        its numbers. Errors: its own where it throws, and Disagreement on the other ranks; Disagreement where the lines differ."""
        self._calls += 1
        refused, self._is_describing, self._is_amid = None, True, False
        try:
            mine = self.header(*describe())
        except BaseException as e:
            refused, mine = e, self.header(f"refused: {text_of(e)}", 0, 0)
        finally:
            self._is_describing = False
        self._is_amid = True
        headers, self._gathered = self._gathered or self.gather(_CALL.pack(self._calls) + mine), None
        if refused:
            self._is_amid = False
            raise refused
        if any(len(h) != _HEADER_BYTES for h in headers):
            error = RuntimeError("bitfold: the ranks are at different places of their calls")
            self._fail(error)
            raise error
        calls, fields = [_CALL.unpack_from(h)[0] for h in headers], [_REST.unpack_from(h, _CALL.size) for h in headers]
        if len({(call, digest) for call, (*_, digest) in zip(calls, fields)}) > 1:
            lines = [f"call {call}: {h[_CALL.size + _REST.size :].rstrip(bytes(1)).decode(errors='replace')}" for call, h in zip(calls, headers)]
            raise Disagreement("bitfold: the ranks make different calls: " + "; ".join(f"rank {r}: {line}" for r, line in enumerate(lines)))
        return [(number, other) for number, other, _ in fields]

    def is_idle(self) -> bool:
        """Whether no call is under way on its thread."""
        return self._last is None or self._last.done()

    def run(self, call: Callable[[], Any], device: torch.device | None = None) -> Any:
        """Behind all calls before it. `device`: where its tensors are; on a GPU it is enqueued on the current stream."""
        stream = _stream_of(device)
        if self.is_amid_another():
            return self._come_at_once(call, stream)
        if self.is_idle():
            with self.lock, self._enqueued(stream):
                return self.to_its_end(call)
        job = self._submit(call, stream)
        if not threading.current_thread().name.startswith(_THREADS):
            return job.result()
        try:  # in a callback of another group's call, whose own may wait for this one
            return job.result(self._seconds)
        except TimeoutError:
            raise RuntimeError(f"bitfold: a call in a callback had no turn within {self._seconds} seconds") from None

    def start(self, call: Callable[[], Any], device: torch.device | None = None) -> Job:
        """The same on a thread of this group's, and a stream, behind what is on the current one."""
        now = _stream_of(device)
        if self.is_amid_another():
            future: Future = Future()
            try:
                future.set_result((self._come_at_once(call, now), now and now.record_event()))
            except BaseException as e:
                future.set_exception(e)
            return Job(self, future, now)
        if now is None:
            return self._submit(call, None)
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return self._submit(call, self._streams[device], now.record_event())

    def _submit(self, call: Callable[[], Any], stream: torch.cuda.Stream | None, ready: torch.cuda.Event | None = None) -> Job:
        def behind_others() -> tuple[Any, torch.cuda.Event | None]:
            with self.lock:
                with self._enqueued(stream, ready):
                    result = self.to_its_end(call)
                return result, stream and stream.record_event()

        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, _THREADS)
        self._last = self._worker.submit(behind_others)
        return Job(self, self._last, stream)

    @contextmanager
    def _enqueued(self, stream: torch.cuda.Stream | None, ready: torch.cuda.Event | None = None) -> Iterator[None]:
        if stream is None:
            yield
            return
        with torch.cuda.stream(stream):
            if ready:
                stream.wait_event(ready)
            self._follow(stream)
            yield

    def _follow(self, stream: torch.cuda.Stream) -> None:
        """What is enqueued there comes behind the call before."""
        if self._on is not None and self._on != stream:
            stream.wait_event(self._on.record_event())
        self._on = stream


def text_of(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def _stream_of(device: torch.device | None) -> torch.cuda.Stream | None:
    return torch.cuda.current_stream(device) if device is not None and device.type == "cuda" else None


_GROUPS: weakref.WeakKeyDictionary[dist.ProcessGroup, Group | str] = weakref.WeakKeyDictionary()  # or why there is none
_MAKING: weakref.WeakKeyDictionary[dist.ProcessGroup, threading.Lock] = weakref.WeakKeyDictionary()


def _forget_all() -> None:
    for group in list(_GROUPS.values()):
        if isinstance(group, Group):
            group.forget()
    for group in distributed_c10d._world.pg_map:
        _GROUPS.setdefault(group, "this process was forked from the one that is its rank")


os.register_at_fork(after_in_child=_forget_all)


def group_of(group: dist.ProcessGroup | None) -> Group:
    """Made by the first call with this group, which all of its ranks make."""
    group = dist.group.WORLD if group is None else group
    if group is None:
        raise ValueError("group: torch.distributed.init_process_group was not called")
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise ValueError("group: this process is none of its ranks")
    found = _GROUPS.get(group)
    return found if isinstance(found, Group) else _made_for(group)


def _made_for(group: dist.ProcessGroup) -> Group:
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"group: {type(group).__name__}, where a ProcessGroup is expected")
    with _NAMING:
        making = _MAKING.setdefault(group, threading.Lock())
    with making:  # as several threads may make first calls
        if group not in _GROUPS:
            try:
                _GROUPS[group] = Group(group)
            except BaseException as e:  # the ranks may stand at different places
                _GROUPS[group] = f"the first one failed: {text_of(e)}"
                raise
        if isinstance(made := _GROUPS[group], str):
            raise RuntimeError(f"bitfold: no calls on this group, as {made}")
        return made
