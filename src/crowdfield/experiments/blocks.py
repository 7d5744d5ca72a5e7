"""A page of results as a list of blocks, and two ways to write it down: Markdown and HTML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

import pandas as pd


@dataclass(frozen=True)
class Heading:
    """A line above what follows; level 2 starts a section."""

    level: int
    text: str

    def markdown(self) -> list[str]:
        return [f"{'#' * self.level} {self.text}", ""]

    def html(self) -> str:
        return f"<h{self.level}>{escape(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Texts:
    """A table of words. `marks` holds a CSS class for the last cell of each row."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...]

    def markdown(self) -> list[str]:
        return [*_markdown_rows([self.head, *self.rows]), ""]

    def html(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.head)
        rows = []
        for cells, mark in zip(self.rows, self.marks, strict=True):
            *first, last = (escape(cell) for cell in cells)
            plain = "".join(f"<td>{cell}</td>" for cell in first)
            rows.append(f'<tr>{plain}<td class="{mark}">{last}</td></tr>')
        return f'<table class="text"><tr>{head}</tr>{"".join(rows)}</table>'


@dataclass(frozen=True)
class Numbers:
    """A table of numbers, its index first; cells without a value stay empty."""

    frame: pd.DataFrame

    def markdown(self) -> list[str]:
        head = [str(self.frame.index.name), *map(str, self.frame.columns)]
        rows = [
            [str(n), *("" if pd.isna(value) else f"{value:.3f}" for value in row)] for n, row in self.frame.iterrows()
        ]
        return [*_markdown_rows([head, *rows]), ""]

    def html(self) -> str:
        return self.frame.to_html(float_format="{:.3f}".format, na_rep="", border=0)


@dataclass(frozen=True)
class Picture:
    """A figure of the folder `figures/`, with its caption."""

    name: str
    caption: str

    def markdown(self) -> list[str]:
        return [f"![{self.caption}](figures/{self.name}.png)", "", f"*{self.caption}*", ""]

    def html(self) -> str:
        caption = escape(self.caption)
        image = f'<a href="figures/{self.name}.svg"><img src="figures/{self.name}.png" alt="{caption}"></a>'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]

    def markdown(self) -> list[str]:
        return [*(f"- {item}" for item in self.items), ""]

    def html(self) -> str:
        return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in self.items) + "</ul>"


Block = Heading | Texts | Numbers | Picture | Bullets


def as_markdown(blocks: Iterable[Block]) -> list[str]:
    """The lines of all blocks, each followed by an empty one."""
    return [line for block in blocks for line in block.markdown()]


def as_html(blocks: Iterable[Block]) -> str:
    """All blocks, one below the other."""
    return "\n".join(block.html() for block in blocks)


def _markdown_rows(rows: Iterable[Iterable[str]]) -> list[str]:
    head, *rest = (list(row) for row in rows)
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rest)]
