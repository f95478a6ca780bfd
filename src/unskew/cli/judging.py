"""What is to be thought of a model or a log: unskew evaluate, compare and diagnose."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import unskew
from unskew.cli import options
from unskew.cli.options import LOG_HELP, argument, count, option
from unskew.cli.output import TABLES, Answer, check_place, write_table
from unskew.cli.reading import Impressions, is_model
from unskew.errors import ParameterError

SCORES_HELP = "A file with columns user_id, item_id and score for all pairs, or a folder that `unskew fit` wrote."
NEW_HELP = f"Ratings that neither was trained on; two models of one log need none. {LOG_HELP}"
SUBJECT_HELP = f"A folder that `unskew fit` or `unskew benchmark` wrote, or a log: {LOG_HELP}"


def evaluate(
    model: options.Model,
    reading: Impressions,
    test: Annotated[
        str | None,
        argument("TEST", f"Ratings to judge by; without them the log judges. {LOG_HELP}"),
    ] = None,
    k: Annotated[list[int], count("Length of ranked lists, repeatable.")] = [5, 10],  # noqa: B006
    empty_users: options.EmptyUsersOption = "skip",
    on_unknown: options.OnUnknownOption = "raise",
    per_user: Annotated[Path | None, option("Write every user's metrics (.csv, .tsv, .parquet).")] = None,
) -> Answer:
    """Compare a model's predictions with the ratings of a test.

    Every figure has an interval. Without a test, estimate how good they are over the pairs that nobody chose, from the
    model's own log alone.

    Example:
        unskew evaluate model test.csv --k 5 --per-user users.csv
    """
    check_place(per_user, *TABLES)
    recommender = unskew.load(model)
    if test is None:
        if per_user is not None:
            raise ParameterError("--per-user needs a TEST: the log alone knows no user's metrics.")
        risk = unskew.estimate_risk(recommender)
        return Answer(repr(risk), risk.to_dict())
    ratings = reading.log(test, recommender.log.scale, test=True)
    if ratings.binary != recommender.log.binary:
        answers, wrong = ("probabilities", "graded") if recommender.log.binary else ("graded ratings", "positive")
        raise ParameterError(f"the model answers with {answers}, so that --{wrong} makes no sense: leave it out.")
    found = unskew.evaluate(recommender, ratings, k=k, empty_users=empty_users, on_unknown=on_unknown)
    lines, notes = [str(found)], [*found.notes]
    if ratings.duplicates_merged:
        notes.append(f"{ratings.duplicates_merged:,} duplicates of the test were merged")
        lines.append(f"note: {notes[-1]}")
    if per_user is not None:
        write_table(per_user, found.per_user)
        lines.append(f"wrote the metrics of {len(found.per_user):,} users to {per_user}")
    names = ("metrics", "baselines", "n_pairs", "n_users", "empty_users", "n_empty_users", "positive_from")
    intervals = {name: interval.to_dict() for name, interval in found.intervals.items()}
    facts = {name: getattr(found, name) for name in names} | {"intervals": intervals, "notes": notes}
    return Answer("\n".join(lines), facts)


def compare(
    first: Annotated[str, argument("A", SCORES_HELP)],
    second: Annotated[str, argument("B", "The same of the other model.")],
    reading: Impressions,
    log: Annotated[str | None, option(NEW_HELP, "LOG")] = None,
    random_ratings: options.RandomRatings = None,
    seed: options.Seed = 0,
) -> Answer:
    """Decide whether B is better than A for all pairs.

    What judges is a log of pairs that users chose, and random ratings if there are any.

    Example:
        unskew compare A.csv B.csv --log new-ratings.csv
    """
    for source in (first, second):
        if not Path(source).exists():
            raise ParameterError(f"{source} does not exist: check the path.")
    a, b = (unskew.load(source) if Path(source).is_dir() else source for source in (first, second))
    known = next((model.log for model in (a, b) if not isinstance(model, str)), None)
    ratings = None if log is None else reading.log(log, None if known is None else known.scale)
    own = ratings if ratings is not None else known
    if own is None and random_ratings is not None:
        raise ParameterError("two files of scores need a log: give it by --log.")
    short = (Path(first).stem, Path(second).stem)  # the ends of their paths, if these differ
    found = unskew.compare(
        a,
        b,
        ratings,
        random_ratings=reading.random_ratings(random_ratings, own),
        names=short if short[0] != short[1] else (first, second),
        seed=seed,
    )
    return Answer(str(found), found.to_dict())


def diagnose(
    source: Annotated[str, argument("MODEL|LOG|RESULTS", SUBJECT_HELP)],
    reading: Impressions,
    out: Annotated[Path | None, option("Write the findings as a page (.html) too.")] = None,
    random_ratings: options.RandomRatings = None,
    show_ids: Annotated[bool, option("Name people by their ids, not as person A, B and C.")] = False,
    seed: options.Seed = 0,
) -> Answer:
    """Decide: use a model, test it or not; correct a log or not.

    A model's method and plain training are fitted without each of five folds of the log and judged there.

    \b
    unskew diagnose model --random-ratings random.csv --out report.html

    Example:
        unskew diagnose ratings.csv --json
    """
    check_place(out, ".html", ".htm")
    wrote = f"wrote the page to {out}; open it in a browser"
    if (Path(source) / "benchmark.json").is_file():
        from unskew.report.page import write_page

        if out is None:
            raise ParameterError(f"{source} holds results of a benchmark: name a page for them by --out.")
        write_page(Path(source), out)
        return Answer(wrote, {"page": str(out)})
    if is_model(source) and (words := reading.words()):
        raise ParameterError(f"{words[0]} is for logs; a model knows its own.")
    subject: Any = unskew.load(source) if is_model(source) else reading.log(source)
    log = subject.log if is_model(source) else subject
    random = reading.random_ratings(random_ratings, log)
    called = [source, *reading.words(for_fit=True)]
    found = unskew.diagnose(subject, random_ratings=random, show_ids=show_ids, called=called, seed=seed)
    if out is None:
        return Answer(found.text(), found.to_dict())
    from unskew.evaluation.kept import fingerprint
    from unskew.report.page import write_page

    given = [*([] if random_ratings is None else ["--random-ratings", random_ratings]), *reading.words()]
    words = ["unskew", "diagnose", source, *given, "--out", str(out)]
    write_page(found, out, command=shlex.join(words), log=fingerprint(log), seed=seed)
    return Answer(f"{found.text(details=False)}\n\n{wrote}", found.to_dict())
