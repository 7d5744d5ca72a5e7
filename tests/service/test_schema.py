"""schemathesis reads our own OpenAPI document and sends what fits it, and what does not: never a 5xx."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from tests.service.workspace import FLOOD, HERE, Workspace

from crowdfield.service.settings import Settings


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    space = Workspace(
        Settings(
            database=str(tmp_path_factory.mktemp("schema") / "w.db"), worker=False, coalesce_seconds=0,
            reads_per_second=1e6, writes_per_second=1e6, anonymous_per_second=1e6, allowed_hosts=["testserver"],
        )
    )  # fmt: skip
    admin = space.client("admin")
    admin.post("/situations", json=FLOOD)
    admin.post("/situations/flood/reports", json=[HERE | {"label": "dry", "source": s, "id": s} for s in "abcd"])
    space.fit()
    # An event stream has no end; it has tests of its own.
    loaded = schemathesis.openapi.from_asgi("/openapi.json", space.app).exclude(path_regex="/events$")
    loaded.config.headers = {"Authorization": f"Bearer {space.keys['admin']}"}
    yield loaded
    space.close()


def takes_a_file(operation):
    return operation.definition.raw.get("requestBody", {}).get("content", {}).keys() & {"multipart/form-data"}


def test_no_request_breaks_the_service(schema):
    asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        # Files are read in a process of their own each, which takes a second to start.
        examples = 4 if takes_a_file(operation) else 8

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def holds(case):
            nonlocal asked
            asked += 1
            named = case.path_parameters or {}
            if "situation" in named:
                # One that exists, or else all would end at 404; but not for the request that removes it.
                gone = case.method == "DELETE" and case.path == "/situations/{situation}"
                named["situation"] = "none" if gone else "flood"
            response = case.call()
            case.validate_response(response, checks=[not_a_server_error])
            if response.status_code >= 400:
                assert response.headers["content-type"][0] == "application/problem+json"

        holds()
    assert asked > 200
