"""Debian's Chromium for tests that look at pages; they are skipped with a reason where it is missing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed; `make test` as root installs it"
)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Suggestions under the address bar are pages too: two more for every window, which nobody sees.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
]


@contextmanager
def page(**options: Any) -> Iterator[Any]:
    """A page of an offline browser. On leaving: no console errors, no exceptions, no request but for files."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        context = browser.new_context(offline=True, **options)
        opened, trouble, asked = context.new_page(), [], []
        opened.on(
            "console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None
        )
        opened.on("pageerror", lambda error: trouble.append(str(error)))
        opened.on("request", lambda request: asked.append(request.url))
        yield opened
        browser.close()
    assert not trouble
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked), asked
