"""Bad input is answered with one sentence and exit code 2, and leaves no file; nothing else is swallowed."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from unskew.cli import app

COMMANDS: Any = typer.main.get_command(app).commands
WORDS = {  # that each command would take
    "demo": "",
    "fit": "ratings.csv --out new --method naive",
    "predict": "model pairs.csv --out a.csv --new-users new.csv",
    "recommend": "model --new-users new.csv",
    "similar": "model --item 1",
    "split": "ratings.csv --out parts",
    "evaluate": "model test.csv",
    "diagnose": "ratings.csv",
    "compare": "A.csv B.csv --log test.csv",
    "tune": "ratings.csv --method naive",
    "benchmark": "ratings.csv --out new",
    "reproduce": "table3 --dataset world --out new",
    "export": "model --to parquet",
    "serve": "model",
    "update": "model new.csv",
    "list": "",
    "doctor": "",
}
NUMBERS = ("N", "SHARE", "RATING")
LONG = "x" * 5000
BAD = {"empty": "", "long": LONG, "long csv": f"{LONG}.csv", "long toml": f"{LONG}.toml"}
BAD_NUMBERS = {"empty": "", "text": "many", "underscores": "1_000", "huge": "9" * 25, "negative": "-7", "nan": "nan"}


def cases():
    """Every option and argument of every command, with every value that nothing could be made of."""
    found = {}
    for command, words in WORDS.items():
        for parameter in COMMANDS[command].params:
            name = parameter.opts[0]
            if getattr(parameter, "is_flag", False) or name == "--help":
                continue
            values = BAD_NUMBERS if parameter.metavar in NUMBERS else BAD
            for kind, value in values.items():
                if name == "--positive" and kind in ("negative", "huge"):
                    continue  # a threshold like any other
                given = [name, value] if name.startswith("--") else [value, "b", "c"]
                if name == "--graded":
                    given = [name, value, "5"]
                base = words.split() if name.startswith("--") else []
                found[f"{command} {name} {kind}"] = [command, *base, *given]
    return found


CASES = cases()


@pytest.fixture(scope="module")
def here(files, model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    for source in files.iterdir():
        (folder / source.name).symlink_to(source)
    (folder / "unknown.csv").write_text("user_id,item_id,rating\nu999,888,5\nu1,889,1\n")
    (folder / "done.csv").write_text("user_id,item_id,prediction\nu1,1,0.5\n")
    (folder / "new.csv").write_text("user_id,item_id,rating\nann,1,5\n")
    (folder / "lost.csv").write_text("user_id,item_id,rating\nann,1,5\nann,999,1\n")
    (folder / "items.csv").write_text("item_id\n1\n")
    (folder / "bought.csv").write_text("user_id,item_id\n1,1\n2,2\n")
    (folder / "twice.csv").write_text((files / "ratings.csv").read_text() + "u1,1,5\nu1,1,4\n")
    (folder / "folder.csv").mkdir()
    rows = [f"{u},{i},{1 + (u + i) % 5}" for u in range(30) for i in range(10)] + ["9,19,99"]
    (folder / "absurd.csv").write_text("user_id,item_id,rating\n" + "\n".join(rows) + "\n")
    return folder


def refused(run, here, words, monkeypatch):
    monkeypatch.chdir(here)
    before = set(here.iterdir())
    result = run(*words, "--quiet", code=2)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert set(here.iterdir()) == before
    return result.stderr


@pytest.mark.parametrize("command", WORDS)
def test_no_option_takes_a_value_that_means_nothing(command, run, here, monkeypatch):
    for case, words in CASES.items():
        if case.startswith(f"{command} "):
            assert LONG not in refused(run, here, words, monkeypatch), case


FIT, BENCHMARK = "fit ratings.csv --out new --method", "benchmark ratings.csv --out new"
SENTENCES = {  # a sentence says what is wrong, the value, where, and what to do
    f"{FIT} nave": "There is no method 'nave'; did you mean 'naive'?",
    "fti ratings.csv": "no such command 'fti'. Did you mean 'fit'?",
    "doctor --foo": "no such option: --foo; `unskew doctor --help` has an example.",
    "list coat": "more arguments than it takes: (coat); `unskew list --help`",
    "predict model test.csv": "missing option '--out'; `unskew predict --help` has an example",
    "export model": "missing option '--to': choose from onnx, parquet; `unskew export --help`",
    "export model --to csv": "invalid value for '--to': 'csv' is not one of 'onnx', 'parquet'",
    f"{FIT} naive --seed many": "'--seed': must be a whole number from 0 to 9,223,372,036,854,775,807, not 'many'",
    "recommend model --k 999999999": "'--k': must be a whole number from 1 to 10,000, not '999999999'",
    "diagnose model --propensity x": "--propensity is gone: the judge fits its own",
    "fit none.csv --out new --method naive": "none.csv does not exist",
    f"{FIT} ips --set net.n_factrs=1": "did you mean 'n_factors'?",
    f"{FIT} ips --set learning_rate.low=1": "learning_rate is 0.01, which has no settings",
    f"{FIT} ips --set clip=2": "clip of IPS must be a number at least 0 and at most 1",
    f"{FIT} ips --set clip": "--set clip is not of the form NAME=VALUE",
    f"{FIT} ips --set clip=0 --set clip=1": "--set clip is given twice",
    f"{FIT} ips --set propensity=aditive": "did you mean 'Additive'?",
    f"{FIT} ips --set propensity=mf": "propensity of IPS must be a propensity, not MF(",
    f"{FIT} dce-bayes --set swepes=9": "DCEBayes has no setting 'swepes'; did you mean 'sweeps'?",
    f"{FIT} ips --set propensity=naivebayes": "pass --random-ratings FILE",
    f"{FIT} ips --user-features items.csv": "--user-features is gone: use --set log.user_features=FILE.",
    "fit twice.csv --out new --method naive": "--set log.duplicates=last keeps the last rating",
    "split twice.csv --out new": "--duplicates last keeps the last rating",
    "split bought.csv --out new": "for it, give --target implicit.",
    "tune bought.csv --method naive": "for it, give --set log.target=implicit.",
    "tune ratings.csv --method naive --set validation.training=5": "training must be a Training(...), not 5.",
    f"{FIT} naive --set validation.seed=1": "--set validation.seed has no meaning here",
    f"{FIT} naive --set log.usr=1": "--set log has no setting 'usr'; did you mean 'user'?",
    f"{FIT} naive --positive 3 --graded 1 5": "give one of the two",
    f"{FIT} naive --graded 1 4": "learned from with a wider --graded.",
    "fit absurd.csv --method naive --out new": "the rating 99 in 1 row stands out, as all others lie from 1 to 5",
    "fit coat:x --out new --method naive": "x does not exist: get Coat",
    "fit coat:x --out new --method naive --item i": "--item is for files, and coat:x is a dataset",
    "fit ratings.csv --method naive --out no/where": "the folder no does not exist",
    "fit ratings.csv --method naive": "model is there already: name a folder",
    "split ratings.csv --test 2 --out new": "'--test': must lie between 0 and 1, both excluded, not '2'",
    "fit model --method naive --out new --user who": "--user is for files, and model is the folder of a model",
    "fit ratings.csv --out new --method a.toml": "a.toml cannot be read",
    "evaluate model test.csv --graded 1 5": "answers with probabilities",
    "evaluate model --per-user a.csv": "--per-user needs a TEST",
    "evaluate model unknown.csv": "pass --on-unknown fallback",
    **{
        words: f"--{lost} names a column, and no file is read for it here: "
        for words, lost in {
            "predict model pairs.csv --out a.csv --rating stars": "rating",
            "recommend model --for u1 --user who": "user",
            "recommend model --for pairs.csv --item what": "item",
            "recommend model --items pairs.csv --rating stars": "rating",
        }.items()
    },
    "predict model pairs.csv --user who --out a.csv": "no column 'who'",
    "predict model done.csv --out a.csv": "'prediction' already",
    "recommend model --for u999": "pass --on-unknown fallback",
    "recommend model --users a.csv": "--users is gone: name the file by --for",
    "recommend model --new-users lost.csv": "pass --on-unknown fallback to leave them out",
    "tune ratings.csv --method naive --out no/a.toml": "no/a.toml cannot be written",
    f"{BENCHMARK} --methods naive,ips,naive": "--methods names naive twice",
    "benchmark coat --out new": "coat is a dataset: name the folder of its files too, as coat:FOLDER",
    f"{BENCHMARK} --data .": "--data is gone: name the folder as in coat:FOLDER",
    "benchmark world --test test.csv --out new": "world has a random test of its own",
    "benchmark world --user who --out new": "is not read from files",
    f"{BENCHMARK} --test test.csv --test-fraction 0.1": "give one of the two",
    "diagnose model --positive 3": "--positive is for logs",
    "diagnose ratings.csv --out page.pdf": "ends in none of .html",
    "compare A.csv B.csv": "give the log that is to judge them by --log.",
}


@pytest.mark.parametrize("words", SENTENCES)
def test_a_sentence_names_what_is_wrong(words, run, here, monkeypatch):
    assert SENTENCES[words] in refused(run, here, words.split(), monkeypatch)


def test_any_other_error_is_not_swallowed(monkeypatch):
    def broken():
        raise RuntimeError("a defect")

    monkeypatch.setattr("unskew.registry.broken", broken)
    assert isinstance(CliRunner().invoke(app, ["list"]).exception, RuntimeError)
