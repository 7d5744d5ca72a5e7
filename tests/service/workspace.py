"""A workspace whose maps are fitted when a test says so, and what is reported in it."""

from starlette.testclient import TestClient

from crowdfield.service.app import create_app
from crowdfield.service.auth import Role
from crowdfield.service.settings import Settings
from crowdfield.service.worker import Worker

REGION = (-72.6, 18.2, -72.0, 18.8)
FLOOD = {"id": "flood", "title": "Flood", "states": ["dry", "flooded"], "region": REGION, "columns": 16}
HERE = {"longitude": -72.3, "latitude": 18.5}


class Workspace:
    """A service without its own worker process: tests say when a map is fitted."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.app = create_app(settings)
        self.service = self.app.state.service
        self._worker: Worker | None = None
        self.keys = {role.name: self.service.keys.create(f"a {role.name}", role) for role in Role if role}

    def client(self, role: str | None = None, **options: object) -> TestClient:
        headers = {"Authorization": f"Bearer {self.keys[role]}"} if role else {}
        given: dict[str, object] = {"base_url": "http://localhost", **options}
        return TestClient(self.app, headers=headers, raise_server_exceptions=False, **given)  # type: ignore[arg-type]

    @property
    def worker(self) -> Worker:
        self._worker = self._worker or Worker(self.settings)
        return self._worker

    def fit(self) -> None:
        while self.worker.look():
            self.service.forget()
        self.service.forget()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.engine.dispose()
        self.service.close()
