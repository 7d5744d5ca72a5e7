"""The API documentation as one HTML page made from the OpenAPI document, without scripts or files of other servers."""

from collections.abc import Iterator
from html import escape
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")


def render(document: dict[str, Any], folder: str) -> str:
    """A page with every operation, by tag. `folder`: the address under which its style sheet and its icon are served.
    The icon is named because browsers otherwise ask for /favicon.ico, which does not exist."""
    about = document["info"]
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                found = operations[method]
                by_tag.setdefault((found.get("tags") or ["other"])[0], []).append(_operation(method, path, found))
    sections = [f"<section><h2>{escape(tag)}</h2>{''.join(parts)}</section>" for tag, parts in by_tag.items()]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(about['title'])} API</title>"
        f'<link rel="icon" href="{escape(folder)}/icon.svg" type="image/svg+xml">'
        f'<link rel="stylesheet" href="{escape(folder)}/docs.css"></head><body>'
        f"<h1>{escape(about['title'])} {escape(about['version'])}: the API</h1>"
        f"<p>{escape(about['description'])}</p>"
        '<p>For programs: <a href="/openapi.json">/openapi.json</a>. '
        "Keys are sent as <code>Authorization: Bearer …</code>.</p>"
        f"<main>{''.join(sections)}</main></body></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    words = operation.get("description") or operation.get("summary") or ""
    rows = "".join(_parameter(p) for p in operation.get("parameters", ()))
    table = f"<table><tbody>{rows}</tbody></table>" if rows else ""
    media = ", ".join(operation.get("requestBody", {}).get("content", {}))
    body = f"<p>Body: <code>{escape(media)}</code></p>" if media else ""
    return (
        f"<article><h3><b>{method.upper()}</b> <code>{escape(path)}</code></h3>"
        f"<p>{escape(words)}</p>{table}{body}</article>"
    )


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter.get("schema", {})
    kinds = " or ".join(sorted(set(_kinds(schema)))) or "text"
    words = parameter.get("description") or schema.get("description") or ""
    needed = "" if parameter.get("required") else ", optional"
    return (
        f"<tr><th scope='row'><code>{escape(parameter['name'])}</code></th>"
        f"<td>{escape(parameter['in'])}, {escape(kinds)}{needed}</td><td>{escape(words)}</td></tr>"
    )


def _kinds(schema: dict[str, Any]) -> Iterator[str]:
    for part in schema.get("anyOf", (schema,)):
        if "enum" in part:
            yield ", ".join(str(value) for value in part["enum"])
        elif part.get("type", "null") != "null":
            yield str(part["type"])
