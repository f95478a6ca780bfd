"""What a model answers: unskew predict, recommend, similar, serve, and export for other systems."""

from __future__ import annotations

import signal
import socket
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import unskew
from unskew.cli import options
from unskew.cli.options import argument, count, option
from unskew.cli.output import TABLES, Answer, check_place, write_table
from unskew.cli.reading import Columns, Reading
from unskew.errors import ParameterError
from unskew.runtime import say

if TYPE_CHECKING:
    import pyarrow as pa

    from unskew.data.log import RatingLog

SHOWN = 20  # rows on the terminal
VECTORS_HELP = "A file MODEL.onnx, or a folder MODEL.vectors with users and items.parquet."


def predict(
    model: options.Model,
    pairs: Annotated[Path, argument("PAIRS", "A file with a row per pair of user and item.")],
    reading: Columns,
    out: Annotated[Path, option("The same rows with predictions (.csv, .tsv, .parquet).")],
    new_users: options.NewUsers = None,
    on_unknown: options.OnUnknownOption = "raise",
    spreadsheet: options.Spreadsheet = False,
) -> Answer:
    """Predict the ratings of pairs of users and items.

    Predictions are probabilities of liking or, if the model was fitted with --graded, ratings.

    Example:
        unskew predict model pairs.csv --out predictions.csv
    """
    from unskew.asked import for_the_average

    check_place(out, *TABLES)
    if new_users is None:
        reading.refuse_unread_columns("user", "item")
    recommender = reading.folded_in(unskew.load(model), new_users, on_unknown)
    table, names = reading.table(pairs, ("user", "item"), recommender.log)
    users, items = table[names["user"]], table[names["item"]]
    codes = recommender.log.user_ids.codes(users), recommender.log.item_ids.codes(items)
    if "prediction" in table.column_names:
        raise ParameterError(f"{pairs.name} has a column 'prediction' already: rename it.")
    table = table.append_column("prediction", [recommender.predict(users, items, on_unknown=on_unknown)])
    write_table(out, table, spreadsheet)
    if unknown := for_the_average(*codes):
        say(unknown)
    averages = int(((codes[0] < 0) | (codes[1] < 0)).sum())
    facts = {"predictions": str(out), "pairs": len(table), "answered_for_the_average": averages}
    return Answer(f"wrote {len(table):,} predictions to {out}", facts | {"guessed": reading.guessed})


def recommend(
    model: options.Model,
    reading: Columns,
    out: Annotated[Path | None, option("Write all rows (.csv, .tsv, .parquet), not show the first.")] = None,
    k: Annotated[int, count("How many items for each user.")] = 10,
    users: Annotated[
        list[str] | None,
        option("Only for this user, repeatable, or for those in a file.", "ID|FILE", "--for"),
    ] = None,
    items: Annotated[Path | None, option("Only items in the column --item of a file.")] = None,
    keep_seen: Annotated[bool, option("Recommend also what the user has rated already.")] = False,
    by: Annotated[str | None, option("choice, liking, lower, thompson; the model's own.", "ORDER")] = None,
    new_users: options.NewUsers = None,
    on_unknown: options.OnUnknownOption = "raise",
    spreadsheet: options.Spreadsheet = False,
) -> Answer:
    """Recommend to every user the best items.

    By choice, what a user would pick and like; by liking, what he would like if he met it, whatever he tends to meet.

    With --new-users the model learns users it has not met from their few ratings, without training, and recommends to
    them, unless --for names others:

    \b
    unskew recommend model --new-users their-ratings.csv --out recommendations.csv

    Example:
        unskew recommend model --k 5 --out recommendations.csv
    """
    check_place(out, *TABLES)
    if new_users is None:
        reading.refuse_unread_columns(*["user"] * _is_file(users), *["item"] * (items is not None))
    known = unskew.load(model)
    recommender = reading.folded_in(known, new_users, on_unknown)
    ids = recommender.log.user_ids
    wanted = _asked(reading, users, known.log) if users else ids.arrow[0 if new_users is None else known.log.n_users :]
    limits = None if items is None else reading.ids(items, "item", known.log)

    def lists(of: pa.Array) -> pa.Table:
        """Return the lists of some users, with a line on what is odd about them."""
        rules: Any = {"by": by, "exclude_seen": not keep_seen, "items": limits, "on_unknown": on_unknown}
        table: pa.Table = recommender.recommend(of, k, **rules, library="pyarrow")
        if unknown := int((ids.codes(of) < 0).sum()):
            say(f"{unknown:,} of {len(of):,} users are unknown and were answered for the average user")
        if (empty := k * len(of) - len(table)) > 0:
            say(f"{empty:,} places stayed empty, as users had fewer than {k} items left")
        return table

    def facts(table: pa.Table) -> dict[str, Any]:
        return {"users": len(wanted), "rows": len(table), "order": recommender.order(by), "guessed": reading.guessed}

    if out is None:
        few = wanted if users else wanted[: max(1, SHOWN // k)]  # text shows the first users alone
        read = "\na score is the log of the chance to be picked and liked; --by liking has that to be liked"
        return Answer(
            lambda: _first(lists(few), len(wanted)) + read * (recommender.order(by) == "choice"),
            lambda: facts(table := lists(wanted)) | {"recommendations": table.to_pylist()},
        )
    write_table(out, table := lists(wanted), spreadsheet)
    text = f"wrote {len(table):,} recommendations for {len(wanted):,} users to {out}, by {recommender.order(by)}"
    return Answer(text, facts(table) | {"written": str(out)})


def _asked(reading: Reading, given: list[str], log: RatingLog) -> pa.Array:
    """Return the users who were asked for, each once."""
    from unskew.data.ids import as_ids, narrowed

    asked = reading.ids(Path(given[0]), "user", log) if _is_file(given) else narrowed(as_ids(given, "--for"))
    distinct = asked.unique()
    if len(distinct) < len(asked):
        say(f"users are answered once: {len(asked) - len(distinct):,} repeated ids were left out")
    return distinct


def _is_file(given: list[str] | None) -> bool:
    return given is not None and len(given) == 1 and Path(given[0]).is_file()


def _first(table: pa.Table, n_users: int) -> str:
    """Return the first rows as text, and how many there are."""
    first = table.select([table.column_names[0], "rank", *table.column_names[1:-2], "score"]).slice(0, SHOWN)
    shown = len(first[0].unique())
    what = f"{len(first)} of {len(table):,} places" if shown == n_users else f"of {shown} of {n_users:,} users"
    more = len(first) < len(table) or shown < n_users
    note = f"\nthe first {what}; --out FILE writes all of them" if more else ""
    return _as_text(first) + note


def _as_text(table: pa.Table) -> str:
    from unskew.findings import Table

    found = (row.values() for row in table.to_pylist())
    rows = [[f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row] for row in found]
    return Table("", table.column_names, rows).text()


def similar(
    model: options.Model,
    item: Annotated[list[str] | None, option("Items like this one, repeatable.", "ID")] = None,
    user: Annotated[list[str] | None, option("Users like this one, repeatable.", "ID")] = None,
    k: Annotated[int, count("How many of each.")] = 10,
) -> Answer:
    """Show items like an item, or users like a user.

    Two items are alike if what the model answers for them, beyond what all items share, goes up and down together over
    all users; two users are alike over all items.

    Example:
        unskew similar model --item 12
    """
    if bool(item) == bool(user):
        raise ParameterError("similar needs --item or --user: give one of the two.")
    answers = unskew.load(model).similar(items=item or None, users=user or None, k=k, library="pyarrow")
    return Answer(_as_text(answers), answers.to_pylist())


def serve(
    model: options.Model,
    port: Annotated[int, count("Where to listen.", 0, 65_535)] = 8000,
    host: Annotated[str, option("Its address; 0.0.0.0 is all of them.", "ADDRESS")] = "127.0.0.1",
    log: Annotated[Path | None, option("Write every list that is shown, with its chances.", "FOLDER")] = None,
) -> Answer:
    """Answer over HTTP: predictions, lists, new users.

    /docs shows what can be asked, health and metrics too. A model that is saved to the folder again is taken up within
    a second, without a request lost; one that is broken is refused, and the old one goes on. Ctrl-C or SIGTERM ends it
    when the requests under way are answered.

    Example:
        unskew serve model --port 8000 --log shown
    """
    try:
        import uvicorn

        from unskew.serve.app import create_app
        from unskew.serve.limits import CONNECTIONS, SlowClientsAreCutOff
    except ImportError as error:
        raise ParameterError(f"`unskew serve` needs {error.name}: pip install 'unskew[serve]'.") from None
    from unskew.serve.live import Live
    from unskew.serve.shown import ShownLog

    live = Live(model)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=CONNECTIONS)
    except (OSError, UnicodeError):
        raise ParameterError(f"{host}:{port} cannot be listened on: choose another --port or --host.") from None
    shown = None if log is None else ShownLog(log)
    config = uvicorn.Config(
        create_app(live, shown), host=host, port=port, http=SlowClientsAreCutOff, ws="none", log_level="warning",
        limit_concurrency=CONNECTIONS, timeout_keep_alive=15, timeout_graceful_shutdown=10,
    )  # fmt: skip
    where = f"http://{host}:{listening.getsockname()[1]}"
    say(f"serving {model} at {where}; {where}/docs shows what can be asked")
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises what has ended it once more, for these
        signal.signal(number, lambda *_: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lists, once for each: no client reads them
        uvicorn.Server(config).run(sockets=[listening])
    return Answer("stopped", {"address": where, "model": live.current.name, "rows": 0 if shown is None else shown.rows})


def export(
    model: options.Model,
    to: Annotated[Literal["onnx", "parquet"], option("A scorer of pairs, or vectors of users and items.")],
    out: Annotated[Path | None, option(VECTORS_HELP, "PATH")] = None,
) -> Answer:
    """Write a model in a form that other systems can serve.

    onnx is one file that takes user_id and item_id and answers with predictions, also for unknown users and items; it
    is checked with onnxruntime before it is written. parquet are vectors for a nearest-neighbour index: the inner
    product of a user's and an item's is the model's logit.

    \b
    unskew export model --to onnx

    Example:
        unskew export model --to parquet --out vectors
    """
    if to == "onnx" and out is not None:
        check_place(out, ".onnx")
    recommender = unskew.load(model)
    place = model if model.name else model.absolute()
    if to == "onnx":
        scorer = unskew.export.to_onnx(recommender, out or place.with_name(f"{place.name}.onnx"))
        checked = {"pairs_checked": scorer.n_checked, "difference": scorer.largest_difference}
        text = (
            f"wrote the scorer to {scorer.path}: onnxruntime answers as the model does for {scorer.n_checked:,} random "
            f"pairs, to {scorer.largest_difference:.1g}"
        )
        return Answer(text, {"path": str(scorer.path), **checked})
    found = unskew.export.to_parquet(recommender, out or place.with_name(f"{place.name}.vectors"))
    for note in found.notes:
        say(f"note: {note}")
    facts = {"path": str(found.folder), "users": found.n_users, "items": found.n_items, "columns": found.n_columns}
    text = f"wrote vectors of {found.n_users:,} users and {found.n_items:,} items to {found.folder}"
    return Answer(text, facts | {"notes": list(found.notes)})
