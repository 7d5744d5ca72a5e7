"""What a process that reads a file may use."""

from dataclasses import asdict, dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """The defaults are the service's: what is read for a stranger ends below 1 GB and 20 s, whatever the file holds."""

    memory: int = 768 * MIB
    """Bytes of private memory. Program code, some 150 MB, comes on top and is shared with other processes."""
    processor_seconds: float = 12.0
    seconds: float = 15.0
    """By the wall clock, its start (about one second) included."""
    answer: int = 128 * MIB
    """Bytes of the answer. A hundred thousand reports take about 15 MB."""
    open_files: int = 64

    def plain(self) -> dict[str, float]:
        return asdict(self)
