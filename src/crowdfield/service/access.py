"""Which role each route asks for, known before the body of a request is read.

A framework that parses the body first would let anybody send 150 MB before it says 401.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from crowdfield.service.auth import Principal
from crowdfield.service.deps import Need

# How the addresses end that take files.
FILES = ("/import", "/import/preview", "/districts/{name}", "/weights", "/totals", "/checks/result")


@dataclass(frozen=True)
class Access:
    """What a request is about to do, as far as its address and method tell."""

    needs: tuple[Need, ...] = ()
    path: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    def check(self, principal: Principal) -> None:
        """Raises what the route itself would answer to somebody who may not do this."""
        for need in self.needs:
            need.check(principal, self.parameters.get("situation"))

    @property
    def imports(self) -> bool:
        """Whether the body is a file (reports, districts, weights, checks), far larger than other bodies."""
        return self.path.endswith(FILES)


class RouteAccess:
    """Looks up the route of a request and what it asks for."""

    def __init__(self, routers: Iterable[APIRouter]):
        routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
        self._routes = [(route, tuple(_needs(route.dependant))) for route in routes]

    def find(self, scope: Scope) -> Access:
        """The route that will answer; an empty one where none will."""
        for route, needs in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                return Access(needs, route.path_format, found.get("path_params", {}))
        return Access()


def _needs(dependant: Dependant) -> Iterable[Need]:
    for inner in dependant.dependencies:
        if isinstance(inner.call, Need):
            yield inner.call
        yield from _needs(inner)
