"""From a file of ratings to recommendations, by commands alone."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

import unskew
from unskew.evaluation import evaluate

Run = Callable[..., Result]


def rows_of(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def test_fit_writes_the_model_the_library_would_fit(run: Run, files: Path, tmp_path: Path) -> None:
    settings = ("--set", "propensity=additive", "--set", "net.n_factors=3", "--set", "clip=0.1")
    run(
        "fit",
        files / "ratings.csv",
        "--method",
        "ips",
        "--out",
        tmp_path / "m",
        "--set",
        "training.max_epochs=2",
        "--seed",
        5,
        *settings,
    )
    method = unskew.IPS(propensity=unskew.Additive(), net=unskew.MF(n_factors=3), clip=0.1)
    log = unskew.read_log(files / "ratings.csv")
    expected = method.fit(log, seed=5, training=unskew.Training(max_epochs=2))
    found = unskew.load(tmp_path / "m")
    pairs = log.user_ids.take(log.users), log.item_ids.take(log.items)
    assert found.method == method
    np.testing.assert_array_equal(found.predict(*pairs), expected.predict(*pairs))


def test_fit_says_what_was_read_what_happened_and_where_the_model_is(run: Run, files: Path, tmp_path: Path) -> None:
    text = run(
        *("fit", files / "ratings.csv", "--method", "ips", "--set", "propensity=additive"),
        *("--out", tmp_path / "m", "--set", "training.max_epochs=1"),
    ).stdout
    assert repr(unskew.read_log(files / "ratings.csv")) in text
    assert "0 duplicates merged" in text
    assert "prediction: 1 epochs" in text
    assert "propensity: mean" in text
    assert f"wrote the model to {tmp_path / 'm'}; next: unskew diagnose" in text


def test_fit_counts_merged_duplicates_and_passes_columns_and_scale_on(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = [f"{u};{i};{rng.integers(1, 6)}" for u in range(20) for i in range(10)] + ["0;0;5", "1;1;1"]
    (tmp_path / "log.csv").write_text("who;what;stars\n" + "\n".join(lines))
    columns = ("--user", "who", "--item", "what", "--rating", "stars")
    result = run(
        *(
            "fit",
            tmp_path / "log.csv",
            "--method",
            "naive",
            "--out",
            tmp_path / "m",
            "--set",
            "training.max_epochs=1",
            "--json",
        ),
        *(*columns, "--duplicates", "last", "--graded", 1, 5, "--set", "training.batch_size=64"),
    )
    facts = json.loads(result.stdout)
    assert facts["log"]["duplicates_merged"] == 2
    assert facts["log"]["ratings"] == 200
    assert facts["stages"]["prediction"]["epochs"] == 1
    scale = unskew.load(tmp_path / "m").log.scale
    assert (scale.positive, scale.low, scale.high) == (None, 1, 5)


def test_fit_hands_features_and_random_ratings_to_the_method(run: Run, files: Path, tmp_path: Path) -> None:
    for side, ids in (("user", [f"u{n}" for n in range(60)]), ("item", range(40))):
        text = "".join(f"{name},{number % 7}\n" for number, name in enumerate(ids))
        (tmp_path / f"{side}s.csv").write_text(f"{side}_id,x\n{text}")
    common = ("fit", files / "ratings.csv", "--method", "ips", "--set", "training.max_epochs=1")
    features = ("--user-features", tmp_path / "users.csv", "--item-features", tmp_path / "items.csv")
    run(*common, *features, "--set", "propensity=logistic", "--out", tmp_path / "a")
    assert unskew.load(tmp_path / "a").log.user_features is not None
    refused = run(*common, *features, "--out", tmp_path / "c", code=2).stderr
    assert "--user-features: the method 'ips' reads no features; use" in refused
    assert "--set propensity=logistic." in refused
    test = rows_of(files / "ratings.csv")[:200]
    (tmp_path / "slice.csv").write_text(
        "user_id,item_id,rating\n" + "".join(f"{row['user_id']},{row['item_id']},{row['rating']}\n" for row in test)
    )
    random = ("--random-ratings", tmp_path / "slice.csv")
    assert (
        "random ratings: RatingLog(200 ratings"
        in run(*common, *random, "--set", "propensity=naivebayes", "--out", tmp_path / "b").stdout
    )


def test_evaluate_prints_the_librarys_evaluation(run: Run, files: Path, model: Path) -> None:
    test = unskew.read_log(files / "test.csv")
    expected = evaluate(unskew.load(model), test, k=(3,), empty_users="one")
    found = run("evaluate", model, files / "test.csv", "--k", 3, "--empty-users", "one")
    assert str(expected) in found.stdout
    as_json = json.loads(run("evaluate", model, files / "test.csv", "--k", 3, "--empty-users", "one", "--json").stdout)
    assert as_json["metrics"] == pytest.approx(expected.metrics)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_evaluate_writes_a_row_per_user(run: Run, files: Path, model: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"users{ending}"
    run("evaluate", model, files / "test.csv", "--per-user", out)
    rows = rows_of(out) if ending == ".csv" else pq.read_table(out).to_pylist()
    assert len(rows) == 60
    assert {"user_id", "auc", "ndcg@5", "ndcg@10"} <= set(rows[0])


def test_evaluate_uses_the_models_threshold_unless_told_otherwise(run: Run, files: Path, tmp_path: Path) -> None:
    run(
        "fit",
        files / "ratings.csv",
        "--method",
        "naive",
        "--positive",
        4,
        "--set",
        "training.max_epochs=1",
        "--out",
        tmp_path / "m",
    )
    facts = json.loads(run("evaluate", tmp_path / "m", files / "test.csv", "--json").stdout)
    assert (facts["positive_from"], facts["notes"]) == (4, [])
    other = json.loads(run("evaluate", tmp_path / "m", files / "test.csv", "--positive", 3, "--json").stdout)
    assert other["positive_from"] == 3
    assert other["notes"] == ["the model learned what is rated 4 or more, the test asks for 3 or more"]


def test_evaluate_counts_what_it_answered_for_the_average_user(
    run: Run, files: Path, model: Path, tmp_path: Path
) -> None:
    log = (files / "test.csv").read_text() + "stranger,1,5\nstranger,2,1\nu1,777,4\n"
    (tmp_path / "test.csv").write_text(log)
    text = run("evaluate", model, tmp_path / "test.csv", "--on-unknown", "fallback").stdout
    assert "3 of 723 pairs were answered for the average user or item" in text
    assert "(2 have an unknown user, 1 an unknown item)" in text


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_predict_adds_predictions_and_propensities_to_the_rows(
    run: Run, files: Path, model: Path, tmp_path: Path, ending: str
) -> None:
    out = tmp_path / f"predictions{ending}"
    run("predict", model, files / "pairs.csv", "--out", out, "--propensity")
    rows = pq.read_table(out).to_pylist() if ending == ".parquet" else rows_of(out, "\t" if ending == ".tsv" else ",")
    assert [row["user_id"] for row in rows] == [row["user_id"] for row in rows_of(files / "pairs.csv")]
    assert {row["remark"] for row in rows} == {"kept"}
    users, items = [row["user_id"] for row in rows], [int(row["item_id"]) for row in rows]
    loaded = unskew.load(model)
    np.testing.assert_allclose([float(row["prediction"]) for row in rows], loaded.predict(users, items))
    np.testing.assert_allclose([float(row["propensity"]) for row in rows], loaded.propensity(users, items))


def test_predict_counts_fallbacks_and_gives_them_no_propensity(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("user_id,item_id\nstranger,1\nu1,777\nu1,1\n")
    out = tmp_path / "out.csv"
    text = run(
        "predict", model, tmp_path / "pairs.csv", "--out", out, "--propensity", "--on-unknown", "fallback"
    ).stderr
    assert "2 of 3 pairs were answered for the average user or item" in text
    rows = rows_of(out)
    assert all(0 < float(row["prediction"]) < 1 for row in rows)
    assert [row["propensity"] == "" for row in rows] == [True, True, False]


def test_recommend_writes_what_the_library_recommends_to_everybody(run: Run, model: Path, tmp_path: Path) -> None:
    run("recommend", model, "--k", 3, "--out", tmp_path / "top.parquet")
    assert pq.read_table(tmp_path / "top.parquet").to_pylist() == unskew.load(model).recommend(k=3).to_pylist()


def test_recommend_to_some_users_among_some_items(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("user_id\nu1\nu2\nu1\n")
    (tmp_path / "items.csv").write_text("item_id\n1\n2\n")
    options = ("--items", tmp_path / "items.csv", "--keep-seen", "--out", tmp_path / "top.csv")
    text = run("recommend", model, "--users", tmp_path / "users.csv", *options).stderr
    assert "1 repeated ids were left out" in text
    assert "16 places stayed empty" in text  # 2 users, 2 of 10 items each
    rows = rows_of(tmp_path / "top.csv")
    assert [(row["user_id"], row["rank"]) for row in rows] == [("u1", "1"), ("u1", "2"), ("u2", "1"), ("u2", "2")]
    assert {row["item_id"] for row in rows} == {"1", "2"}


def test_recommend_shows_the_first_rows_and_says_how_many_there_are(run: Run, model: Path) -> None:
    text = run("recommend", model, "--k", 4).stdout
    assert "the first of 5 of 60 users; --out FILE writes all of them" in text
    best = unskew.load(model).recommend(k=4).to_pylist()[0]
    first = text.splitlines()[2].split()
    assert first == [best["user_id"], "1", str(best["item_id"]), f"{best['score']:.4f}"]


def test_recommend_to_a_stranger_says_so(run: Run, model: Path) -> None:
    text = run("recommend", model, "--for", "stranger", "--for", "u1", "--k", 2, "--on-unknown", "fallback").stderr
    assert "1 of 2 users are unknown and were answered for the average user" in text


def test_an_output_that_fails_leaves_the_old_file_as_it_was(
    run: Run, files: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    out = tmp_path / "out.csv"
    out.write_text("old")
    monkeypatch.setattr("unskew.store.atomic.write_synced", full_disk)
    assert "no space left on device" in run("predict", model, files / "pairs.csv", "--out", out, code=2).stderr
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_split_writes_two_parts_that_are_read_as_the_log_was(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{u},{i},{1 + (u * i) % 5},{1000 + 10 * u + i}\n" for u in range(20) for i in range(10))
    (tmp_path / "log.csv").write_text(f"userId,movieId,rating,timestamp\n{rows}")
    for by in ("time", "user", "random"):
        out = tmp_path / by
        facts = json.loads(run("split", tmp_path / "log.csv", "--by", by, "--test", 0.1, "--out", out, "--json").stdout)
        assert (facts["train"], facts["test"]) == (180, 20)
        parts = [unskew.read_log(out / f"{name}.csv", positive=3) for name in ("train", "test")]
        assert [len(part) for part in parts] == [180, 20]
        assert parts[0].names[:4] == ("userId", "movieId", "rating", "timestamp")
        if by == "time":
            assert parts[0].times.max() < parts[1].times.min()
    again = ("split", tmp_path / "log.csv", "--out", tmp_path / "log.csv")
    assert "log.csv is a file" in run(*again, code=2).stderr


def test_lists_and_neighbours_have_titles(run: Run, files: Path, tmp_path: Path) -> None:
    titles = "".join(f'{item},"Film {item}, the"\n' for item in range(40))
    (tmp_path / "films.csv").write_text(f"item_id,title\n{titles}")
    names, model = ("--item-names", tmp_path / "films.csv"), tmp_path / "m"
    run("fit", files / "ratings.csv", "--method", "naive", "--set", "training.max_epochs=1", *names, "--out", model)
    assert "Film" in run("recommend", model, "--k", 2).stdout
    rows = json.loads(run("similar", model, "--item", 3, "--k", 2, "--json").stdout)
    assert [row["title"] for row in rows] == ["Film 3, the"] * 2
    assert all(row["similar_title"] == f"Film {row['similar_item_id']}, the" for row in rows)
    assert "give one of the two" in run("similar", model, code=2).stderr
