"""One record of what was found, behind terminal, JSON, notebook and page: intervals, findings, a decision, tables."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from markupsafe import Markup, escape

from unskew.errors import ParameterError

if TYPE_CHECKING:
    from unskew.charts import Chart

Decision = Literal["use", "test", "stop"]
Answer = Literal["yes", "no", "cannot tell"]
LABELS: dict[str, dict[Decision, str]] = {
    "model": {"use": "Use it", "test": "Test it first", "stop": "Do not switch"},
    "log": {"use": "Correct it", "test": "Cannot tell", "stop": "Plain is fine"},
}
DECISIONS: dict[Answer, Decision] = {"yes": "use", "no": "stop", "cannot tell": "test"}
COLOURS: dict[Decision, str] = {"use": "#2c6e49", "test": "#96610a", "stop": "#a4343a"}
WIDTH, SCREEN = 100, 40  # columns and lines of `repr`


class Interval(NamedTuple):
    """A number and the ends of its interval, NaN if it has none (a band has ends alone), shown by `form`."""

    value: float
    low: float = math.nan
    high: float = math.nan
    form: str = ".4g"

    def __str__(self) -> str:
        value, low, high = (f"{end:{self.form}}" if math.isfinite(end) else "unknown" for end in self[:3])
        if not math.isfinite(self.low + self.high):
            return value
        return f"{value} ({low} to {high})" if math.isfinite(self.value) else f"{low} to {high}"

    def covers(self, truth: float) -> bool:
        return self.low <= truth <= self.high

    def to_dict(self) -> dict[str, float | None]:
        return {name: _json(getattr(self, name)) for name in ("value", "low", "high")}


Cell = str | int | float | Interval | None


@dataclass(frozen=True, repr=False)
class Table:
    """Rows below a header, the first column their names; cells at the places (row, column) in `strong` stand out."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    strong: frozenset[tuple[int, int]] = frozenset()

    def text(self) -> str:
        """Return columns set apart by spaces, strong cells with a star."""
        lines = self._lines(plain, "{}*")
        widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            pads = [" " * (wide - _width(cell)) for wide, cell in zip(widths, line, strict=True)]
            line[:] = [line[0] + pads[0], *(pad + cell for pad, cell in zip(pads[1:], line[1:], strict=True))]
        return "\n".join("  ".join(line).rstrip() for line in lines)

    def markdown(self) -> str:
        head, *rest = [f"| {' | '.join(line)} |" for line in self._lines(_markdown, "**{}**")]
        return "\n".join([head, f"| --- |{' ---: |' * (len(self.header) - 1)}", *rest])

    def latex(self) -> str:
        """Return a table environment that needs no package."""
        head, *rest = [" & ".join(line) + r" \\" for line in self._lines(_latex, r"\textbf{{{}}}")]
        columns = "l" + "r" * (len(self.header) - 1)
        opening = [r"\begin{table}[ht]", r"\centering", rf"\caption{{{_latex(self.caption)}}}"]
        opening += [rf"\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline"]
        return "\n".join([*opening, *rest, r"\hline", r"\end{tabular}", r"\end{table}"])

    def csv(self) -> str:
        """Return comma-separated values: numbers in full, all else as it is shown."""
        rows = ([cell if isinstance(cell, int | float) else shown(cell) for cell in row] for row in self.rows)
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.header, *rows])
        return out.getvalue()

    def html(self) -> Markup:
        head, *rest = self._lines(escape, "<b>{}</b>")
        columns = "".join(f"<th scope='col'>{name}</th>" for name in head)
        rows = ("".join([f"<th scope='row'>{line[0]}</th>", *(f"<td>{c}</td>" for c in line[1:])]) for line in rest)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return Markup(f"<table><caption>{escape(self.caption)}</caption><tr>{columns}</tr>{body}</table>")

    def to_dict(self) -> dict[str, Any]:
        rows = [[_json(cell) for cell in row] for row in self.rows]
        return {"caption": self.caption, "header": list(self.header), "rows": rows}

    def __repr__(self) -> str:
        return _screen(self.text())

    def _repr_html_(self) -> str:
        return self.html()

    def _lines(self, escaped: Callable[[str], str], strong: str) -> list[list[str]]:
        """Header and rows as a format has them."""
        rows = [[escaped(shown(cell)) for cell in row] for row in self.rows]
        for n, place in self.strong:
            rows[n][place] = strong.format(rows[n][place])
        return [[escaped(name) for name in self.header], *rows]


@dataclass(frozen=True, repr=False)
class Finding:
    """The answer to one question, with its numbers, what it rests on and what to do about it."""

    key: str
    answer: Answer
    headline: str
    meaning: str
    numbers: Mapping[str, Interval] = field(default_factory=dict)
    rests_on: str = ""
    action: str = ""
    chart: Chart | None = None
    table: Table | None = None

    def text(self) -> str:
        """Return all of it but the chart, for a terminal."""
        words = [self.meaning, *(f"{name}: {number}" for name, number in self.numbers.items())]
        words += [f"{name}: {rest}" for name, rest in (("Rests on", self.rests_on), ("Do", self.action)) if rest]
        table = (
            [] if self.table is None else [textwrap.indent(f"{plain(self.table.caption)}\n{self.table.text()}", "  ")]
        )
        headline = _wrapped(f"{self.key}: {self.answer}. {self.headline}")
        return "\n".join([headline, *(_wrapped(line, "  ", "  ") for line in words if line), *table])

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold: a number that is not finite is None, a chart the table behind it."""
        facts = {name: getattr(self, name) for name in ("key", "answer", "headline", "meaning", "rests_on", "action")}
        facts["numbers"] = {name: number.to_dict() for name, number in self.numbers.items()}
        return facts | {name: part and part.to_dict() for name, part in (("chart", self.chart), ("table", self.table))}

    def __repr__(self) -> str:
        return _screen(self.text())

    def _repr_html_(self) -> str:
        numbers = Markup("").join(Markup("<li>{}: {}</li>").format(*one) for one in self.numbers.items())
        head = f"{self.key}: {self.answer}. {self.headline}"
        first = Markup("<h4>{}</h4><p>{}</p><ul>{}</ul>").format(head, self.meaning, numbers)
        drawn = Markup(self.chart._repr_svg_() if self.chart else "") + (self.table.html() if self.table else "")
        return Markup("{}{}<p>{} <b>{}</b></p>").format(first, drawn, self.rests_on, self.action)


@dataclass(frozen=True, repr=False)
class Findings:
    """A decision about a model or, without one, about a log (`subject`), why, the findings behind it and what to do."""

    decision: Decision
    why: str
    findings: Sequence[Finding] = ()
    next_steps: Sequence[str] = ()
    about: str = ""
    subject: Literal["model", "log"] = "model"

    @property
    def label(self) -> str:
        """The decision in words."""
        return LABELS[self.subject][self.decision]

    def __getitem__(self, key: str) -> Finding:
        for finding in self.findings:
            if finding.key == key:
                return finding
        raise ParameterError(f"there is no finding {key!r}: there are {', '.join(one.key for one in self)}.")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def numbers(self) -> Table:
        """Return every number of every finding."""
        rows = [(one.key, name, number) for one in self for name, number in one.numbers.items()]
        return Table("Numbers", ("finding", "number", "value"), rows)

    def text(self, details: bool = True) -> str:
        """Return the decision, the findings (without details their headlines) and what to do next."""
        wide = max((len(one.key) for one in self), default=0)
        heads = (_wrapped(f.headline, f"{f.key:<{wide}}  {f.answer:<11}  ", " " * (wide + 15)) for f in self)
        body = "\n\n".join(one.text() for one in self) if details else "\n".join(heads)
        steps = "\n".join(_wrapped(step, f"{n}. ", "   ") for n, step in enumerate(self.next_steps, 1))
        parts = (_wrapped(self.about), _wrapped(f"{self.label.upper()}. {self.why}"), body, steps and f"Next\n{steps}")
        return "\n\n".join(part for part in parts if part)

    def to_dict(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in ("subject", "decision", "label", "why", "about")}
        return facts | {"findings": [one.to_dict() for one in self], "next_steps": list(self.next_steps)}

    def json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def __repr__(self) -> str:
        return _screen(self.text(details=False))

    def _repr_html_(self) -> str:
        head = Markup("<p>{}</p><h3 style='color:{}'>{}</h3><p>{}</p>").format(
            self.about, COLOURS[self.decision], self.label, self.why
        )
        steps = Markup("").join(Markup("<li>{}</li>").format(step) for step in self.next_steps)
        return head + Markup("").join(Markup(one._repr_html_()) for one in self) + Markup("<ol>{}</ol>").format(steps)


def paragraphs(lines: Iterable[str]) -> Markup:
    return Markup("").join(Markup("<p>{}</p>").format(line) for line in lines)


def shown(cell: Cell) -> str:
    """Return a cell as text: whole numbers with commas, others with four digits, None as nothing."""
    if isinstance(cell, float):
        return f"{cell:.4g}" if math.isfinite(cell) else "unknown"
    return f"{cell:,}" if isinstance(cell, int) else "" if cell is None else str(cell)


def _json(cell: Cell) -> Any:
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    return cell.to_dict() if isinstance(cell, Interval) else cell


def plain(words: str) -> str:
    """Return one line without control characters, which a terminal would obey."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(words.split())
    )


def _wrapped(words: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(plain(words), WIDTH, initial_indent=first, subsequent_indent=rest)


def _width(words: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in words)


def _screen(words: str) -> str:
    lines = words.split("\n")
    return "\n".join(lines if len(lines) <= SCREEN else [*lines[: SCREEN - 1], "... (.text() has the rest)"])


def _markdown(words: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(words.split()))


_LATEX = {ord(letter): f"\\{letter}" for letter in "&%$#_{}"} | {ord(letter): f"${letter}$" for letter in "<>|"}
_LATEX |= {ord("\\"): r"\textbackslash{}", ord("~"): r"\textasciitilde{}", ord("^"): r"\textasciicircum{}"}
_LATEX |= {ord(letter): f"{{{letter}}}" for letter in "[]"}  # which after the end of a row would be taken for a length


def _latex(words: str) -> str:
    return " ".join(words.split()).translate(_LATEX)
