"""Which role each route requires, looked up before the body of a request is read.

If the body were parsed first, anybody could send 150 MB before being refused with 401.
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
from crowdfield.service.deps import RequiredRole

# Endings of the paths that take files.
FILES = ("/import", "/import/preview", "/districts/{name}", "/weights", "/totals", "/checks/result")


@dataclass(frozen=True)
class Access:
    """The route that a request matches by its method and path, and the roles that the route requires."""

    needs: tuple[RequiredRole, ...] = ()
    path: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    def check(self, principal: Principal) -> None:
        """Raise the error that the route itself would answer if this caller lacks the role."""
        for need in self.needs:
            need.check(principal, self.parameters.get("situation"))

    @property
    def imports(self) -> bool:
        """Whether the body is a file (reports, districts, weights, checks), far larger than other bodies."""
        return self.path.endswith(FILES)


class RouteAccess:
    """Finds the route of a request, and the roles that it requires."""

    def __init__(self, routers: Iterable[APIRouter]):
        routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
        self._routes = [(route, tuple(_needs(route.dependant))) for route in routes]

    def find(self, scope: Scope) -> Access:
        """The route that will answer the request; an empty `Access` where no route matches."""
        for route, needs in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                return Access(needs, route.path_format, found.get("path_params", {}))
        return Access()


def _needs(dependant: Dependant) -> Iterable[RequiredRole]:
    for inner in dependant.dependencies:
        if isinstance(inner.call, RequiredRole):
            yield inner.call
        yield from _needs(inner)
