"""A workspace whose maps are fitted when a test says so, and what is reported in it."""

from typing import Any

from starlette.testclient import TestClient

from crowdfield.service.app import create_app
from crowdfield.service.auth import MAY_NAME_ANY_SOURCE, Role
from crowdfield.service.fit_pool import FitProcess
from crowdfield.service.fitter import Fitter, Job, Outcome
from crowdfield.service.settings import Settings
from crowdfield.service.worker import Worker

REGION = (-72.6, 18.2, -72.0, 18.8)
FLOOD: dict[str, Any] = {"id": "flood", "title": "Flood", "states": ["dry", "flooded"], "region": REGION, "columns": 16}
# To learn the length-scale takes longer than most tests.
FLOOD |= {"model": {"lengthscale": 6300.0}}
HERE = {"longitude": -72.3, "latitude": 18.5}


class Here:
    """In place of the processes of `FitPool`: every job is done in this one, as soon as it is given."""

    size = 2

    def __init__(self, settings: Settings):
        self.fitter = Fitter(settings)
        self._process = FitProcess(None, None, ready=True)  # type: ignore[arg-type]
        self._ended: list[tuple[Job, Outcome]] = []

    def idle(self) -> list[FitProcess]:
        return [self._process]

    def busy(self) -> list[FitProcess]:
        return []

    def start(self, _: FitProcess, job: Job) -> None:
        self._ended.append((job, self.fitter.run(job)))

    def finished(self, _: float) -> list[tuple[Job, Outcome]]:
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        self.fitter.close()


class Workspace:
    """A service without its own worker process: tests say when a map is fitted."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.app = create_app(settings)
        self.service = self.app.state.service
        self._worker: Worker | None = None
        self.keys = {
            # As keys of older workspaces are: they may name any source, and share their report ids.
            role.name: self.service.keys.create(f"a {role.name}", role, MAY_NAME_ANY_SOURCE, origin="")
            for role in Role
            if role
        }

    def client(self, role: str | None = None, **options: object) -> TestClient:
        headers = {"Authorization": f"Bearer {self.keys[role]}"} if role else {}
        given: dict[str, object] = {"base_url": "http://localhost", **options}
        return TestClient(self.app, headers=headers, raise_server_exceptions=False, **given)  # type: ignore[arg-type]

    @property
    def worker(self) -> Worker:
        self._worker = self._worker or worker_here(self.settings)
        return self._worker

    def fit(self) -> None:
        fit_all(self.worker)
        self.service.forget()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self.service.close()


def worker_here(settings: Settings) -> Worker:
    """A worker that fits in this process."""
    return Worker(settings, pool=Here(settings))  # type: ignore[arg-type]


def fit_all(worker: Worker) -> int:
    """Fit until nothing is left to do; how many fits that took."""
    count = 0
    while worker.poll():
        worker.conclude(0)
        count += 1
    return count
