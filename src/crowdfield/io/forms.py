"""Submissions of a form, fetched from KoboToolbox or ODK Central and kept in a file, one per line.

The file is also the cursor: what it holds is not fetched again, and a fetch that is cut off loses nothing. Only the
server that was named is asked: redirections and links to another are not followed, since the token would go along.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from crowdfield.errors import DataUnavailableError, InputError, ReportFormatError
from crowdfield.io import limits

PAGE = 1000  # submissions asked for at once; Kobo gives at most 1,000
TIMEOUT = 60.0  # seconds
MOST_PAGES = 10_000
_KOBO = re.compile(r"/api/v2/assets/([A-Za-z0-9]+)/data(?:\.json|/)?$|/forms/([A-Za-z0-9]{10,})(?:/|$)")
_CENTRAL = re.compile(r"/v1/projects/\d+/forms/[^/]+\.svc(?:/Submissions)?$")


@dataclass(frozen=True)
class Form:
    """A form on a server: how its submissions are asked for, and which of them come after which."""

    origin: str
    path: str
    kind: str  # "kobo" or "odk"

    def first_page(self, after: Any) -> str:
        """The address of the submissions after a cursor, the oldest first."""
        if self.kind == "kobo":
            asked = {"format": "json", "limit": str(PAGE), "sort": '{"_id": 1}'}
            if after is not None:
                asked["query"] = json.dumps({"_id": {"$gt": after}})
        else:
            asked = {"$top": str(PAGE)}
            if after is not None:
                # "ge", not "gt": two submissions may have the same time. Repeated ones are recognised by their id.
                asked["$filter"] = f"__system/submissionDate ge {after}"
        return f"{self.origin}{self.path}?{urlencode(asked, quote_via=quote)}"

    def page(self, answer: Any) -> tuple[list[dict[str, Any]], str | None]:
        """The submissions of an answer, and the address of the next ones."""
        rows, after = ("results", "next") if self.kind == "kobo" else ("value", "@odata.nextLink")
        found = answer.get(rows) if isinstance(answer, dict) else None
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise ReportFormatError(
                f"the response contains no list of submissions ('{rows}').", file=self.origin + self.path
            )
        link = answer.get(after)
        return found, link if isinstance(link, str) and link else None

    def cursor(self, row: dict[str, Any]) -> Any:
        if self.kind == "kobo":
            return row.get("_id") if isinstance(row.get("_id"), int) else None
        system = row.get("__system")
        stated = system.get("submissionDate") if isinstance(system, dict) else None
        return stated if isinstance(stated, str) else None

    def name(self, row: dict[str, Any]) -> str:
        return str(row.get("_uuid") or row.get("_id") if self.kind == "kobo" else row.get("__id"))

    def authorisation(self, token: str) -> str:
        if self.kind == "kobo":
            return f"Token {token}"
        return f"Basic {base64.b64encode(token.encode()).decode()}" if ":" in token else f"Bearer {token}"


def form_at(url: str) -> Form:
    """The form that an address names, as it is copied from the browser or the documentation."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise InputError(
            f"{url!r} is not an address of a form: it must start with https:// (or http:// on this machine)."
        )
    if parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        raise InputError(f"{host} would receive the token unencrypted, so others could read it. Use https://.")
    if parts.username or parts.password:
        raise InputError("leave the password out of the address; give it with --token-file.")
    origin = f"{parts.scheme}://{parts.netloc}"
    if _CENTRAL.search(parts.path):
        path = parts.path if parts.path.endswith("/Submissions") else f"{parts.path}/Submissions"
        return Form(origin, path, "odk")
    if match := _KOBO.search(parts.path) or _KOBO.search(parts.fragment):
        return Form(origin, f"/api/v2/assets/{match[1] or match[2]}/data.json", "kobo")
    raise InputError(
        f"{url!r} is not the address of a form. KoboToolbox: https://HOST/api/v2/assets/UID/data.json; "
        "ODK Central: https://HOST/v1/projects/N/forms/FORM.svc"
    )


def pull(
    form: Form, kept: Path, token: str | None = None, *, progress: Callable[[int], None] = lambda _: None
) -> tuple[int, int]:
    """Fetch what the file does not hold yet and add it; (how many are new, how many there are in all)."""
    known, after = _kept(form, kept)
    before = len(known)
    waiting: dict[str, dict[str, Any]] = {}
    for rows in _pages(form, after, token):
        waiting |= {form.name(row): row for row in rows if form.name(row) not in known}
        if form.kind == "kobo":
            known |= _add(kept, waiting)
        progress(len(known) + len(waiting) - before)
    # ODK Central gives the newest first: if a fetch were cut off, the cursor would lie after what was not fetched yet.
    known |= _add(kept, dict(sorted(waiting.items(), key=lambda item: form.cursor(item[1]) or "")))
    return len(known) - before, len(known)


def _kept(form: Form, kept: Path) -> tuple[set[str], Any]:
    """The names of the submissions in the file, and the cursor after the last. Half a line at the end is cut off."""
    if not kept.exists():
        return set(), None
    content = kept.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with kept.open("r+b") as file:
            file.truncate(whole)  # a fetch was cut off; it is asked for again
    try:
        rows = [json.loads(line) for line in content[:whole].splitlines() if line.strip()]
    except (ValueError, RecursionError):
        rows = [None]
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{kept} is not a file of submissions. Name a new one, or remove it.")
    cursors = [cursor for row in rows if (cursor := form.cursor(row)) is not None]
    return {form.name(row) for row in rows}, max(cursors, default=None)


def _add(path: Path, rows: dict[str, dict[str, Any]]) -> set[str]:
    """Add lines to a file that is for its owner alone: submissions hold names and places. Empties `rows`, and returns
    their names."""
    names = set(rows)
    if not names:
        return names
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(number, "a", encoding="utf-8") as file:
        file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.values()))
        file.flush()
        os.fsync(file.fileno())
    rows.clear()
    return names


def _pages(form: Form, after: Any, token: str | None) -> Iterator[list[dict[str, Any]]]:
    address: str | None = form.first_page(after)
    asked: set[str] = set()
    while address is not None and address not in asked and len(asked) < MOST_PAGES:
        asked.add(address)
        rows, link = form.page(_answer(address, form, token))
        yield rows
        address = None if link is None else _same_server(link, form)
    if address is not None:
        raise ReportFormatError("the server returns more pages than a form can have.", file=form.origin)


def _same_server(link: str, form: Form) -> str:
    parts = urlsplit(link)
    if f"{parts.scheme}://{parts.netloc}" != form.origin:
        raise ReportFormatError("the response links to another server, which is not followed.", file=form.origin)
    return link


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Refuses to follow redirections, which would carry the token along."""

    def redirect_request(self, *_: Any) -> None:
        return None


_WHY = {
    301: "it redirects. Use the address that it redirects to",
    302: "it redirects, perhaps to a page for signing in. Is the token right?",
    401: "it does not accept the token. Name a file that holds it with --token-file",
    403: "the token may not read this form. Ask for the right to view its submissions",
    404: "there is no such form. Is the address right?",
    429: "it is asked too often. Try again later",
}


def _why(status: int) -> str:
    broken = f"the server has a problem ({status}). Try again later" if status >= 500 else f"it answers {status}"
    return _WHY.get(status, broken)


def _answer(address: str, form: Form, token: str | None) -> Any:
    where = form.origin + form.path
    request = urllib.request.Request(address, headers={"Accept": "application/json"})  # noqa: S310 - http(s) only
    if token:
        request.add_header("Authorization", form.authorisation(token))
    opener = urllib.request.build_opener(_NoRedirection)
    try:
        with opener.open(request, timeout=TIMEOUT) as response:
            content = response.read(limits.LARGEST_DOCUMENT + 1)
    except urllib.error.HTTPError as problem:
        problem.close()
        raise DataUnavailableError(f"{where}: {_why(problem.code)}.") from None
    except (urllib.error.URLError, http.client.HTTPException, OSError) as problem:
        reason = getattr(problem, "reason", problem)
        raise DataUnavailableError(f"{where}: cannot be reached ({reason}). Is there a network?") from None
    if len(content) > limits.LARGEST_DOCUMENT:
        raise ReportFormatError("its answer is too large.", file=where)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ReportFormatError("the response is not JSON. Is this the address of the data?", file=where) from None
