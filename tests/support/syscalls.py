"""Runs a program and writes down every change that it and its children make to files below some folders.

    python syscalls.py RECORD FOLDER… -- command …

Owns     the processes of the command: they are traced by `ptrace`, and end with this one. Linux on x86-64 only.
Hands on RECORD: pickled `Step`s, one after the other, in the order in which the kernel did them; RECORD.count: how many
         there are, for a test that wants to know what had been done when an answer came.
Keeps    a step is counted before the process that made it goes on. A sync stands for what was there when it began.
         A call that this does not understand, and that changes a file below the folders, is written down as `unknown`.
         What is written through memory maps is not seen; SQLite does that to `-shm` only, which it makes anew.
"""

import ctypes
import mmap
import os
import pickle
import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["create", "write", "size", "sync", "rename", "link", "unlink", "mkdir", "rmdir", "unknown"]


class Step(NamedTuple):
    """`path` names the file at that moment. `number`: offset of a write, new size, or how much a sync stands for."""

    kind: Kind
    path: str
    number: int = 0
    data: bytes = b""
    other: str = ""  # the new name


def steps_of(record: Path) -> Iterator[Step]:
    """What was written down; a half step at the end was not done."""
    with record.open("rb") as file:
        while True:
            try:
                yield Step(*pickle.load(file))  # noqa: S301 - a test wrote it just now
            except (EOFError, pickle.UnpicklingError):
                return


class Count:
    """How many steps there were at this moment."""

    def __init__(self, record: Path) -> None:
        self._path = record.with_suffix(".count")

    def __call__(self) -> int:
        return int.from_bytes(self._path.read_bytes()[:8], "little")


def supported() -> bool:
    return sys.platform == "linux" and os.uname().machine == "x86_64"


# --- the kernel's numbers -------------------------------------------------------------------------------------------

_CALLS = {
    1: "write", 2: "open", 18: "pwrite64", 20: "writev", 40: "sendfile", 74: "fsync", 75: "fdatasync", 76: "truncate",
    77: "ftruncate", 82: "rename", 83: "mkdir", 84: "rmdir", 85: "creat", 86: "link", 87: "unlink", 88: "symlink",
    257: "openat", 258: "mkdirat", 263: "unlinkat", 264: "renameat", 265: "linkat", 266: "symlinkat", 275: "splice",
    277: "sync_file_range", 285: "fallocate", 296: "pwritev", 306: "syncfs", 316: "renameat2", 326: "copy_file_range",
    328: "pwritev2", 425: "io_uring_setup", 437: "openat2",
}  # fmt: skip
_TRACEME, _CONT, _GETREGS, _SYSCALL, _SETOPTIONS = 0, 7, 12, 24, 0x4200
_SYSGOOD, _FORK, _VFORK, _CLONE, _EXEC, _SECCOMP, _EXITKILL = 1, 2, 4, 8, 0x10, 0x80, 0x100000
_EVENT_SECCOMP = 7
_WALL = 0x40000000
_AT_FDCWD = -100
_AT_REMOVEDIR = 0x200
_O_CREAT, _O_TRUNC, _O_APPEND = 0o100, 0o1000, 0o2000
_KEEP_SIZE = 1
_RET_TRACE, _RET_ALLOW = 0x7FF00000, 0x7FFF0000
_LOAD, _JUMP_EQ, _RETURN = 0x20, 0x15, 0x06

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class _Registers(ctypes.Structure):
    _fields_ = [  # type: ignore[mutable-override]
        (name, ctypes.c_ulonglong)
        for name in (
            "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs gs ds es "
            "fs_base gs_base"
        ).split()
    ]


def _ptrace(request: int, pid: int, data: object = None) -> int:
    return int(_libc.ptrace(request, pid, None, data))


def _install_filter() -> None:
    """Only the calls of the list stop; everything else runs as if nobody watched."""
    calls = sorted(_CALLS)
    program = [struct.pack("HBBI", _LOAD, 0, 0, 0)]
    program += [struct.pack("HBBI", _JUMP_EQ, len(calls) - at, 0, call) for at, call in enumerate(calls)]
    program += [struct.pack("HBBI", _RETURN, 0, 0, _RET_ALLOW), struct.pack("HBBI", _RETURN, 0, 0, _RET_TRACE)]
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    if _libc.prctl(38, 1, 0, 0, 0) or _libc.prctl(22, 2, header, 0, 0):
        raise OSError(ctypes.get_errno(), "the calls cannot be filtered")


# --- one call -------------------------------------------------------------------------------------------------------


class _Call:
    """A call of a thread that was stopped on its way into the kernel."""

    def __init__(self, pid: int) -> None:
        registers = _Registers()
        _ptrace(_GETREGS, pid, ctypes.byref(registers))
        self.pid = pid
        self.name = _CALLS[registers.orig_rax]
        self.arguments = [
            registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9,
        ]  # fmt: skip

    def result(self) -> int:
        registers = _Registers()
        _ptrace(_GETREGS, self.pid, ctypes.byref(registers))
        return ctypes.c_longlong(registers.rax).value

    def memory(self, address: int, size: int) -> bytes:
        with Path(f"/proc/{self.pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def text(self, address: int) -> str:
        found = b""
        while b"\0" not in found:
            page_rest = 4096 - (address + len(found)) % 4096
            found += self.memory(address + len(found), page_rest)
        return found.partition(b"\0")[0].decode()

    def path(self, folder: int, address: int) -> str:
        place = ctypes.c_int(folder & 0xFFFFFFFF).value
        base = "cwd" if place == _AT_FDCWD else f"fd/{place}"
        name = self.text(address)
        return os.path.normpath(name if name.startswith("/") else f"{self._link(base)}/{name}")

    def file(self, at: int = 0) -> str:
        try:
            return self._link(f"fd/{self.arguments[at] & 0xFFFFFFFF}")
        except OSError:
            return ""

    def _link(self, name: str) -> str:
        return str(Path(f"/proc/{self.pid}/{name}").readlink())

    def position(self) -> int:
        """Where a plain write goes."""
        facts = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{self.pid}/fdinfo/{self.arguments[0]}").read_text("ascii").splitlines()[:2]
        )
        if int(facts["flags"], 8) & _O_APPEND:
            return Path(f"/proc/{self.pid}/fd/{self.arguments[0]}").stat().st_size
        return int(facts["pos"])

    def vectors(self) -> bytes:
        count = self.arguments[2]
        pairs = struct.unpack(f"{2 * count}Q", self.memory(self.arguments[1], 16 * count))
        return b"".join(self.memory(pairs[at], pairs[at + 1]) for at in range(0, len(pairs), 2))


class Recorder:
    """Turns calls into steps, for paths below its folders."""

    def __init__(self, record: Path, folders: list[str]) -> None:
        self._record = record.open("wb")
        self._folders = tuple(f"{folder}/" for folder in folders)
        self._roots = set(folders)
        with record.with_suffix(".count").open("wb+") as count:
            count.truncate(8)
            self._count = mmap.mmap(count.fileno(), 8)
        self.steps = 0

    def entering(self, call: _Call) -> Step | None:  # noqa: C901 - a table of calls
        """The step that a call will be, if the kernel does it."""
        name, given = call.name, call.arguments
        match name:
            case "open" | "creat" | "openat":
                return self._opened(call)
            case "write" | "pwrite64" | "writev" | "pwritev":
                return self._written(call)
            case "fsync" | "fdatasync":
                return self._if_ours(Step("sync", call.file(), self.steps))
            case "ftruncate":
                return self._if_ours(Step("size", call.file(), given[1]))
            case "fallocate":
                return self._allocated(call)
            case "rename" | "renameat" | "renameat2" | "link" | "linkat":
                return self._named(call)
            case "unlink" | "rmdir" | "unlinkat":
                return self._removed(call)
            case "mkdir" | "mkdirat":
                return self._if_ours(Step("mkdir", _path_in(call)))
            case "sendfile" | "copy_file_range" | "splice":
                target = 0 if name == "sendfile" else 2
                return self._if_ours(Step("unknown", call.file(target), other=name))
            case "io_uring_setup":
                return None  # libuv asks whether it is there; for files only if UV_USE_IO_URING says so
            case _:
                return self._if_ours(Step("unknown", call.file(), other=name))

    def done(self, step: Step, result: int) -> None:
        """The kernel has done it."""
        if step.kind == "write":
            step = step._replace(data=step.data[:result])
        self._record.write(pickle.dumps(tuple(step)))
        self._record.flush()
        self.steps += 1
        self._count[:8] = self.steps.to_bytes(8, "little")

    def _if_ours(self, step: Step) -> Step | None:
        return step if self._ours(step.path) or (step.other and self._ours(step.other)) else None

    def _ours(self, path: str) -> bool:
        return (path.startswith(self._folders) or path in self._roots) and not path.endswith(" (deleted)")

    def _opened(self, call: _Call) -> Step | None:
        path = (
            call.path(call.arguments[0], call.arguments[1])
            if call.name == "openat"
            else call.path(_AT_FDCWD, call.arguments[0])
        )
        if not self._ours(path):
            return None
        flags = _O_CREAT | _O_TRUNC if call.name == "creat" else call.arguments[2 if call.name == "openat" else 1]
        if not Path(path).exists():
            return Step("create", path) if flags & _O_CREAT else None
        return Step("size", path) if flags & _O_TRUNC else None

    def _written(self, call: _Call) -> Step | None:
        path = call.file()
        if not self._ours(path):
            return None
        data = call.vectors() if call.name.endswith("v") else call.memory(call.arguments[1], call.arguments[2])
        return Step("write", path, call.arguments[3] if call.name.startswith("p") else call.position(), data)

    def _allocated(self, call: _Call) -> Step | None:
        path, mode, end = call.file(), call.arguments[1], call.arguments[2] + call.arguments[3]
        if not self._ours(path) or mode == _KEEP_SIZE:
            return None
        if mode:
            return Step("unknown", path, other="fallocate")
        return Step("size", path, end) if end > Path(path).stat().st_size else None

    def _named(self, call: _Call) -> Step | None:
        given = call.arguments
        if call.name.endswith(("at", "at2")):
            old, new = call.path(given[0], given[1]), call.path(given[2], given[3])
        else:
            old, new = call.path(_AT_FDCWD, given[0]), call.path(_AT_FDCWD, given[1])
        return self._if_ours(Step("link" if call.name.startswith("link") else "rename", old, other=new))

    def _removed(self, call: _Call) -> Step | None:
        folder = call.name == "rmdir" or (call.name == "unlinkat" and bool(call.arguments[2] & _AT_REMOVEDIR))
        return self._if_ours(Step("rmdir" if folder else "unlink", _path_in(call)))


def _path_in(call: _Call) -> str:
    if call.name.endswith("at"):
        return call.path(call.arguments[0], call.arguments[1])
    return call.path(_AT_FDCWD, call.arguments[0])


# --- all of them ----------------------------------------------------------------------------------------------------


class Watch:
    """Lets the processes run from stop to stop."""

    def __init__(self, first: int, recorder: Recorder) -> None:
        self._first = first
        self._recorder = recorder
        self._known = {first}
        self._pending: dict[int, tuple[_Call, Step]] = {}

    def run(self) -> int:
        """Until all have ended; the exit status of the first one."""
        os.waitpid(self._first, _WALL)
        _ptrace(_SETOPTIONS, self._first, _SYSGOOD | _FORK | _VFORK | _CLONE | _EXEC | _SECCOMP | _EXITKILL)
        _ptrace(_CONT, self._first, 0)
        result = 0
        while True:
            try:
                pid, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                return result
            if os.WIFSTOPPED(status):
                _ptrace(*self._stopped(pid, os.WSTOPSIG(status), status >> 16))
            elif pid == self._first:
                result = os.waitstatus_to_exitcode(status)

    def _stopped(self, pid: int, number: int, event: int) -> tuple[int, int, int]:
        """How it goes on: to its next stop of interest, with the signal that it was sent."""
        try:
            if event == _EVENT_SECCOMP:
                return (_SYSCALL if self._entering(pid) else _CONT), pid, 0
            if number == signal.SIGTRAP | 0x80:
                self._leaving(pid)
                return _CONT, pid, 0
        except OSError:  # it was killed meanwhile
            self._pending.pop(pid, None)
        if event:
            return _CONT, pid, 0
        if pid not in self._known and number == signal.SIGSTOP:  # how a new process, or thread, begins
            self._known.add(pid)
            return _CONT, pid, 0
        return _CONT, pid, number

    def _entering(self, pid: int) -> bool:
        call = _Call(pid)
        step = self._recorder.entering(call)
        if step is not None:
            self._pending[pid] = call, step
        return step is not None

    def _leaving(self, pid: int) -> None:
        call, step = self._pending.pop(pid)
        result = call.result()
        if result >= 0:
            self._recorder.done(step, result)


def main() -> int:
    at = sys.argv.index("--")
    record, *folders = sys.argv[1:at]
    recorder = Recorder(Path(record), folders)
    child = os.fork()
    if child == 0:
        _ptrace(_TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        _install_filter()
        os.execvp(sys.argv[at + 1], sys.argv[at + 1 :])  # noqa: S606 - the command that was given
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(child, number))
    return abs(Watch(child, recorder).run())


if __name__ == "__main__":
    sys.exit(main())
