"""Documents as Markdown, LaTeX and HTML; whatever a format would take for its own language is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from unskew.bench.document import Document, Grid, Picture, Text


def markdown(document: Document) -> str:
    return "\n\n".join([f"# {_md(document.title)}", *map(_markdown_block, document.blocks)]) + "\n"


def _markdown_block(block: str | Grid | Picture) -> str:
    if isinstance(block, str):
        return _md(block)
    if isinstance(block, Picture):
        return f"![{_md(block.caption)}]({block.file})"
    marks = {1: "**{}**", 2: "*{}*"}
    rows = [[marks.get(cell.place, "{}").format(_md(cell.text)) for cell in row] for row in block.rows]
    return f"{_md(block.caption)}\n\n{markdown_grid([_md(name) for name in block.header], rows)}"


def markdown_grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))


def _md(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split()))


def latex(document: Document) -> str:
    """Text and tables to be put into a document; no package has to be loaded for them."""
    return "\n\n".join([f"\\section*{{{_tex(document.title)}}}", *map(_latex_block, document.blocks)]) + "\n"


def _latex_block(block: str | Grid | Picture) -> str:
    if isinstance(block, str):
        return _tex(block)
    if isinstance(block, Picture):
        return _tex(f"{block.caption}: see {block.file}.")
    marks = {1: "\\textbf{%s}", 2: "\\underline{%s}"}
    header, *rows = [[Text(name) for name in block.header], *block.rows]
    lines = [
        " & ".join(marks.get(cell.place, "%s") % _tex(cell.text) for cell in row) + r" \\" for row in (header, *rows)
    ]
    return "\n".join(
        [
            "\\begin{table}[ht]",
            "\\centering",
            f"\\caption{{{_tex(block.caption)}}}",
            f"\\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            "\\hline",
            lines[0],
            "\\hline",
            *lines[1:],
            "\\hline",
            "\\end{tabular}",
            "\\end{table}",
        ]
    )


_TEX = {character: "\\" + character for character in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "[": "{[}",  # which after the end of a row would be taken for a length
    "]": "{]}",
    "±": "$\\pm$",
    "↓": "$\\downarrow$",
    "↑": "$\\uparrow$",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in " ".join(text.split()))


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b}"
    "table{border-collapse:collapse;margin:0 0 2rem;font-variant-numeric:tabular-nums}"
    "caption{text-align:left;padding:.5rem 0;color:#555}"
    "th,td{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #ddd}"
    "figure{margin:0 0 2rem}figure svg{max-width:100%;height:auto}figcaption{color:#555}"
    "th:first-child,td:first-child{text-align:left}em{font-style:normal;text-decoration:underline}"
)


def page(document: Document) -> str:
    """A page of HTML that needs nothing beside itself."""
    title = html.escape(document.title)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head><body>',
            f"<h1>{title}</h1>",
            *map(_html_block, document.blocks),
            "</body></html>\n",
        ]
    )


def _html_block(block: str | Grid | Picture) -> str:
    if isinstance(block, str):
        return f"<p>{html.escape(block)}</p>"
    if isinstance(block, Picture):
        inline = block.svg[block.svg.index("<svg") :]
        return f"<figure>{inline}<figcaption>{html.escape(block.caption)}</figcaption></figure>"
    marks = {1: "<strong>{}</strong>", 2: "<em>{}</em>"}
    head = "".join(f"<th>{html.escape(name)}</th>" for name in block.header)
    rows = [
        "<tr>"
        + "".join(f"<td>{marks.get(cell.place, '{}').format(html.escape(cell.text))}</td>" for cell in row)
        + "</tr>"
        for row in block.rows
    ]
    return "\n".join([f"<table><caption>{html.escape(block.caption)}</caption>", f"<tr>{head}</tr>", *rows, "</table>"])
