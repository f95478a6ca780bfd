"""The documents tell the truth: their Python runs, their commands parse, their links exist, and nothing is left out."""

import ast
import doctest
import json
import pkgutil
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import typer

import unskew
from benchmarks import pictures, tables
from unskew.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))
COMMANDS = typer.main.get_command(app).commands
METHODS = {entry.name for entry in unskew.registered()}
EXAMPLES = {  # public names whose docstrings show how they are called
    *("RatingLog", "read_log", "simulate", "holdout_split", "fit", "make", "registered", "register", "Recommender"),
    *("load", "evaluate", "estimate_risk", "compare", "diagnose", "DoublyCalibrated", "BayesianFactors"),
}
NOT_RUN = "<!-- not run"  # and why, on the line before a Python block that the tests shall leave alone


def read(name):
    return (ROOT / name).read_text()


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def programs(page, run=True):
    """The Python blocks of a page that are to be run, or those that are not, each at the lines it has there."""
    text = page.read_text()
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        before = text[: block.start()]
        left_alone = before.rstrip("\n").rpartition("\n")[2].startswith(NOT_RUN)
        if left_alone != run:
            yield "\n" * (before.count("\n") + 1) + block[1]


@pytest.fixture
def sample_files(tmp_path, monkeypatch):
    """What pages call ratings.csv, new-ratings.csv and random.csv: a tiny world's log in two parts, and its test."""
    monkeypatch.chdir(tmp_path)
    world = unskew.simulate(100, 50, density=0.3, selection="popularity", seed=0, test_per_user=10)
    first, second = world.log.take(np.arange(800)), world.log.take(np.arange(800, len(world.log)))
    for name, log in {"ratings": first, "new-ratings": second, "random": world.test}.items():
        own = log.take(np.isin(log.users, first.users) & np.isin(log.items, first.items))
        columns = {"user_id": [f"u{code}" for code in own.users], "item_id": [f"i{code}" for code in own.items]}
        rows = pa.table(columns | {"rating": (2 + 2 * own.ratings).astype(int)})
        pyarrow.csv.write_csv(rows, tmp_path / f"{name}.csv")


RUN = [page for page in PAGES if next(programs(page), None)]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
@pytest.mark.usefixtures("sample_files")
def test_the_python_of_a_page_runs_from_top_to_bottom(page):
    namespace = {"__name__": "page"}
    for code in programs(page):
        exec(compile(code, str(page), "exec"), namespace)


def test_python_that_is_not_run_is_python_and_names_what_exists():
    for code in (code for page in PAGES for code in programs(page, run=False)):
        compile(code, "page", "exec")
        for names in re.findall(r"\bunskew((?:\.\w+)+)", code):
            pkgutil.resolve_name(f"unskew{names}")


def command_lines(text):
    """What follows `unskew` in every line of the shell blocks, as words."""
    for block in blocks(text, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            starts = [place for place, word in enumerate(words) if Path(word).name == "unskew"]
            for start in starts:
                rest = words[start + 1 :]
                yield rest[: rest.index("&&")] if "&&" in rest else rest


COMMANDED = [page for page in PAGES if next(command_lines(page.read_text()), None)]


def parsed(words):
    """The parameters that a command would be called with; refused as on the command line, and nothing is run."""
    name, *rest = words
    assert name in COMMANDS, f"there is no command {name}"
    return COMMANDS[name].make_context(name, rest).params


@pytest.mark.parametrize("page", COMMANDED, ids=lambda page: page.name)
def test_the_commands_of_a_page_parse_and_name_methods_that_exist(page):
    for words in command_lines(page.read_text()):
        given = parsed(words)
        named = {given.get("method"), *str(given.get("methods") or "all").split(",")}
        assert {name for name in named if not str(name).endswith(".toml")} <= METHODS | {None, "all"}, words


def test_commands_in_the_text_have_the_options_they_name():
    for name, rest in re.findall(r"`unskew ([a-z]+)([^`]*)`", "\n".join(page.read_text() for page in PAGES)):
        assert name in COMMANDS, name
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts} | {"--help"}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= known, (name, rest)
    known = {option for command in COMMANDS.values() for each in command.params for option in each.opts} | {"--help"}
    assert {option for page in PAGES for option in re.findall(r"`(--[a-z-]+)", page.read_text())} <= known


def test_every_room_is_named_where_contributors_read():
    rooms = {path.parent.name for path in (ROOT / "src/unskew").glob("*/__init__.py")}
    assert not {room for room in rooms if f"`{room}/`" not in read("CONTRIBUTING.md")}


def test_links_between_the_documents_exist():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), (page, target)


def test_the_readmes_commands_use_the_committed_constraints():
    commands = [block for block in blocks(read("README.md"), "sh") if "pip install" in block]
    assert ["-c constraints.txt" in command for command in commands] == [True, True]
    assert re.search(r"^torch==", read("constraints.txt"), re.MULTILINE)


def test_every_registered_method_has_its_formula_use_and_cost():
    rows = re.findall(r"^\| (`[^|]*`) \|(.*)\|$", read("docs/methods.md").split("\n## ")[0], re.MULTILINE)
    named = re.findall(r"`([^`]+)`", " ".join(first for first, _ in rows))
    assert sorted(named) == sorted(METHODS)
    assert f"{len(METHODS)} methods by name" in read("README.md")
    for _, rest in rows:
        assert all(cell.strip() for cell in rest.replace("\\|", "").split("|"))


def test_every_public_name_is_in_the_reference_once():
    pages = [page.read_text() for page in (ROOT / "docs" / "api").iterdir()]
    assert len(pages) == 5
    listed = re.findall(r"^::: unskew\.(\w+)$", "\n".join(pages), re.MULTILINE)
    assert sorted(listed) == sorted(set(unskew.__all__) - {"__version__"})


def test_the_figures_of_readme_compare_and_methods_stand_in_the_records():
    records = tables.gathered(ROOT / "benchmarks/records", "quality")
    printed = "".join(tables.figures(records, group) for group in ("", "choice"))
    for page in ("README.md", "docs/compare.md"):
        for figure in set(re.findall(r"\b0\.\d{4}\b", read(page))):
            assert figure in printed, f"{figure} of {page} is in no table of records"
    first, second = re.search(r"Seconds of.*?Coat(.*?)MovieLens(.*?)\. ", read("docs/methods.md"), re.DOTALL).groups()
    for case, shown in {"coat": first, "movielens": second}.items():
        costs = [tables.values(records, case, name, "seconds") for name in ("naive", "dr-jl", "dce-dr", "dce-bayes")]
        assert re.findall(r"\d+\.\d", shown) == [f"{np.mean(list(own.values())):.1f}" for own in costs]


def test_the_figures_of_the_reproduced_paper_stand_in_its_data():
    files = (ROOT / "benchmarks/records/reproduced-coat").iterdir()
    lines = [line.split(",") for file in files for line in file.open()]
    known = {f"{float(value):.4f}" for line in lines for value in line[2:] if re.fullmatch(r"0\.\d+", value)}
    assert set(re.findall(r"\b0\.\d{4}\b", read("docs/reproduce.md"))) <= known


def test_there_are_at_most_14_000_words():
    apart = [ROOT / "docs/guides/impressions.md", ROOT / "docs/guides/serve.md"]
    assert all(len(page.read_text().split()) <= 1_200 for page in apart)
    texts = [page.read_text() for page in PAGES if page.name != "CONTRIBUTING.md" and page not in apart]
    texts += [text for notebook in NOTEBOOKS for kind, text, _ in cells(notebook) if kind == "markdown"]
    assert sum(len(text.split()) for text in texts) <= 14_000
    assert len(read("README.md").split()) <= 450


def cells(notebook):
    """Kind, text and outputs of every cell."""
    for cell in json.loads(notebook.read_text())["cells"]:
        yield cell["cell_type"], "".join(cell["source"]), cell.get("outputs", [])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_is_small_and_shows_what_it_printed(notebook):
    """tests/long executes it."""
    text = notebook.read_text()
    assert len(text) < 40_000
    assert not re.search(r'["\s(](/(home|root|tmp|work|Users)/|[A-Z]:\\\\)', text), "a path of some machine"
    outputs = [output for _, _, own in cells(notebook) for output in own]
    assert {output.get("name") for output in outputs} == {"stdout"}, "errors and warnings are not to be shown"
    for kind, source, own in cells(notebook):
        if kind == "code":
            compile(source, str(notebook), "exec")
            assert own or "print" not in source, source
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", source if kind == "markdown" else ""):
            assert "://" in target or (notebook.parent / target).exists(), target


def test_examples_of_public_names_give_what_they_show():
    runner, finder, shown = doctest.DocTestRunner(), doctest.DocTestFinder(recurse=False), set()
    for name in unskew.__all__:
        for example in finder.find(getattr(unskew, name), name, extraglobs={"unskew": unskew, "np": np}):
            if example.examples:
                assert not runner.run(example).failed
                shown.add(name)
    assert shown >= EXAMPLES


def test_every_fragment_of_the_changelog_has_a_kind():
    kinds = {kind["directory"] for kind in tomllib.loads(read("pyproject.toml"))["tool"]["towncrier"]["type"]}
    names = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    assert {name.split(".")[1] for name in names} <= kinds


def test_the_figures_of_the_problem_are_those_of_its_pictures_and_of_the_demo():
    _, found = pictures.pictures()
    page = " ".join(read("docs/problem.md").split())
    for words, name in {
        "{:.0%} is liked": "all pairs, the truth",
        "{:.0%} of the squares": "share rated",
        "{:.0%} of those are liked": "the log as it stands",
        "at the left, {:.0%} are liked": "liked in the first group",
        "ordinary way says {:.0%}": "believed there",
        "has seen {:,} ratings": "rated in the first group",
        "and {:,} at the right end": "in the last",
        "weighted log says {:.0%}": "weighted by the true chances",
        "part of the way, {:.0%} here": "weighted by learned chances",
    }.items():
        assert words.format(found[name]) in page, name
    errors = set(re.findall(r"0\.\d{4}", page))
    assert len(errors) == 4
    assert errors <= set(re.findall(r"0\.\d{4}", read("docs/index.md")))


NOUNS = re.compile(
    "A|All|An|Codes|Columns|Each|Entries|Every|How|Ids|Lists|Logits|Names|One|Pairs|Predictions|Probabilities|Ratings|"
    "Rows|Several|Some|The|Times|Titles|Two|What|Where|Whether|Which|Why"
)
NOT_PLAIN = re.compile(
    r"\b(said|told|speaks?|hears?|heard|player|strangers?|newcomers?|settle[sd]?|mend(ed|s)?|beside|foretell|dealt|"
    r"by heart|whom|kin|dear|so many)\b",
    re.IGNORECASE,
)


def test_docstrings_open_with_a_verb_and_words_are_plain():
    """Docstrings of properties name what they hold, and losses may open with their formula."""
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        assert not (found := NOT_PLAIN.search(text)), f"{path.relative_to(ROOT)}: {found[0]}"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and (opening := ast.get_docstring(node)):
                held = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
                assert held or not NOUNS.fullmatch(opening.split()[0]), f"{path}:{node.lineno} {node.name}"
