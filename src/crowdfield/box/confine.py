"""Shutting a process in, from inside, before it touches anything hostile.

Four layers, each of which holds where the others are not allowed or not there: limits of the operating system, an empty
network namespace, Landlock (only named paths can be read, none written), and a filter of system calls (no sockets, no
other programs, no writing). The limits must hold; any other layer that could not be set up is reported.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

from crowdfield.box.limits import Limits

_CLONE_NEWNET, _CLONE_NEWUSER, _CLONE_THREAD = 0x40000000, 0x10000000, 0x00010000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_SET_DUMPABLE = 38, 22, 4
_EPERM, _ENOSYS = 1, 38


def shut(limits: Limits, readable: Iterable[Path]) -> list[str]:
    """Confine this process; the layers that hold. Must be called while it has one thread."""
    if sys.platform == "win32":
        return []  # no limits there; the caller's clock still ends it
    _set_limits(limits)
    holds = ["limits"]
    if not sys.platform.startswith("linux"):
        return holds
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("a process with several threads cannot be shut in: the others would stay outside")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if _leave_network(libc):
        holds.append("network namespace")
    # From here on no program gains rights by being started; both layers below ask for it.
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        if _restrict_paths(libc, readable):
            holds.append("landlock")
        if _filter_calls(libc):
            holds.append("seccomp")
    return holds


def _set_limits(limits: Limits) -> None:
    """Limit memory, files and processor time of this process."""
    import resource
    import signal

    seconds = max(1, int(limits.processor_seconds))
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,  # the answer goes to a pipe
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_DATA: limits.memory,
        # Addresses are cheap and libraries reserve many; this catches what memory limits do not count.
        resource.RLIMIT_AS: limits.memory + 3 * 2**30,
    }
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    # The caller ends a process that takes too long; if the caller is gone, this does.
    signal.alarm(int(limits.seconds) + 5)


def _leave_network(libc: ctypes.CDLL) -> bool:
    """An empty network of its own: not even the loopback address answers there."""
    # Root needs no namespace of users for it, and would lose the right to read other people's files in one.
    return bool(libc.unshare(_CLONE_NEWNET) == 0 or libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0)


# Landlock: system calls have the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # version -> how many rights on files it knows
_SYSTEM_PATHS = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/ld.so.cache",
    "/etc/localtime", "/dev/null", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip


def _restrict_paths(libc: ctypes.CDLL, readable: Iterable[Path]) -> bool:
    """With Landlock, allow reading of code, system files and these paths only; whether the kernel supports it."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    rights = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    network, scope = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
    wanted = struct.pack("<QQQ", rights, network, scope)[: 8 if version < 4 else 16 if version < 6 else 24]
    rules = libc.syscall(_CREATE_RULESET, wanted, ctypes.c_size_t(len(wanted)), ctypes.c_uint32(0))
    if rules < 0:
        return False
    try:
        for path in (*_code_paths(), *map(Path, _SYSTEM_PATHS), *readable):
            _allow_reading(libc, rules, path)
        return bool(libc.syscall(_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0)) == 0)
    finally:
        os.close(rules)


def _code_paths() -> list[Path]:
    """Where Python and the libraries are."""
    return [Path(entry) for entry in {sys.prefix, sys.base_prefix, *sys.path} if entry]


def _allow_reading(libc: ctypes.CDLL, rules: int, path: Path) -> None:
    """Add a rule that allows reading a file or a folder."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there need not be allowed
    try:
        rights = _READ_FILE | (_READ_DIR if path.is_dir() else 0)
        libc.syscall(
            _ADD_RULE, ctypes.c_int(rules), ctypes.c_int(1), struct.pack("<Qi", rights, handle), ctypes.c_uint32(0)
        )
    finally:
        os.close(handle)


# The filter of system calls, by architecture. Names are those of the kernel.
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED: dict[str, dict[str, int]] = {
    "x86_64": {
        "socket": 41, "connect": 42, "accept": 43, "bind": 49, "listen": 50, "socketpair": 53, "accept4": 288,
        "execve": 59, "execveat": 322, "fork": 57, "vfork": 58, "kill": 62, "ptrace": 101,
        "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_send_signal": 424, "pidfd_open": 434,
        "pidfd_getfd": 438, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "bpf": 321,
        "perf_event_open": 298, "add_key": 248, "request_key": 249, "keyctl": 250, "userfaultfd": 323, "mount": 165,
        "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308, "init_module": 175,
        "finit_module": 313, "delete_module": 176, "kexec_load": 246, "open_by_handle_at": 304, "creat": 85,
        "truncate": 76, "rename": 82, "mkdir": 83, "rmdir": 84, "link": 86, "unlink": 87, "symlink": 88, "chmod": 90,
        "chown": 92, "mkdirat": 258, "fchownat": 260, "unlinkat": 263, "renameat": 264, "linkat": 265,
        "symlinkat": 266, "fchmodat": 268, "renameat2": 316,
    },
    "aarch64": {
        "socket": 198, "socketpair": 199, "bind": 200, "listen": 201, "accept": 202, "connect": 203, "accept4": 242,
        "execve": 221, "execveat": 281, "kill": 129, "ptrace": 117, "process_vm_readv": 270,
        "process_vm_writev": 271, "pidfd_send_signal": 424, "pidfd_open": 434, "pidfd_getfd": 438,
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "bpf": 280, "perf_event_open": 241,
        "add_key": 217, "request_key": 218, "keyctl": 219, "userfaultfd": 282, "mount": 40, "umount2": 39,
        "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268, "init_module": 105, "finit_module": 273,
        "delete_module": 106, "kexec_load": 104, "open_by_handle_at": 265, "truncate": 45, "mkdirat": 34,
        "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38, "fchmodat": 53, "fchownat": 54,
        "renameat2": 276,
    },
}  # fmt: skip
_CLONE = {"x86_64": 56, "aarch64": 220}
_OPEN = {"x86_64": ((2, 1), (257, 2)), "aarch64": ((56, 2),)}  # (open or openat, which argument holds the flags)
_UNKNOWN_HERE = (435, 437)  # clone3, openat2: libraries fall back to the older calls, whose arguments can be looked at
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# Classic BPF.
_LOAD, _IF_EQUAL, _IF_BITS, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


def _filter_calls(libc: ctypes.CDLL) -> bool:
    """With seccomp, refuse all system calls that reading a file does not need; whether the kernel supports it."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return False
    steps = _program(machine)
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))

    class Program(ctypes.Structure):
        """A BPF program, as the kernel takes it."""

        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    program = Program(len(steps), ctypes.cast(code, ctypes.c_void_p))
    return bool(libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0) == 0)


def _program(machine: str) -> list[tuple[int, int, int, int]]:
    """Instructions (code, steps to skip if so, steps to skip if not, value)."""
    number, architecture, arguments = 0, 4, 16  # where the kernel puts them
    refused = (_RETURN, 0, 0, _ERROR | _EPERM)
    allowed = (_RETURN, 0, 0, _ALLOW)
    steps = [
        (_LOAD, 0, 0, architecture),
        (_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, number),
    ]
    if machine == "x86_64":  # the same calls by the numbers of the x32 interface
        steps += [(_IF_AT_LEAST, 0, 1, 0x40000000), refused]
    for call in sorted(_REFUSED[machine].values()):
        steps += [(_IF_EQUAL, 0, 1, call), refused]
    for call in _UNKNOWN_HERE:
        steps += [(_IF_EQUAL, 0, 1, call), (_RETURN, 0, 0, _ERROR | _ENOSYS)]
    # A thread may be started, a process may not.
    steps += [
        (_IF_EQUAL, 0, 4, _CLONE[machine]),
        (_LOAD, 0, 0, arguments),
        (_IF_BITS, 0, 1, _CLONE_THREAD),
        allowed,
        refused,
    ]
    for call, position in _OPEN[machine]:
        flags = arguments + 8 * position
        steps += [(_IF_EQUAL, 0, 4, call), (_LOAD, 0, 0, flags), (_IF_BITS, 0, 1, _WRITING), refused, allowed]
    return [*steps, allowed]
