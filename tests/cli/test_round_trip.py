"""From a file of ratings to recommendations, by commands alone: what the library would do, and notes on it."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import unskew

NAIVE = ("--method", "naive", "--set", "training.max_epochs=1")
IPS = ("--method", "ips", "--set", "propensity=additive")


def rows_of(path, delimiter=","):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def test_fit_writes_the_model_the_library_would_fit(run, files, tmp_path):
    settings = ("--set", "net.n_factors=3", "--set", "clip=0.1", "--set", "training.max_epochs=2")
    result = run("fit", files / "ratings.csv", *IPS, *settings, "--seed", 5, "--out", tmp_path / "m")
    method = unskew.IPS(propensity=unskew.Additive(), net=unskew.MF(n_factors=3), clip=0.1)
    log = unskew.read_log(files / "ratings.csv")
    expected = method.fit(log, seed=5, training=unskew.Training(max_epochs=2))
    found = unskew.load(tmp_path / "m")
    pairs = log.user_ids.take(log.users), log.item_ids.take(log.items)
    assert found.method == method
    np.testing.assert_array_equal(found.predict(*pairs), expected.predict(*pairs))
    assert f"{log!r}\n" in result.stderr
    for part in ("prediction: 2 epochs", "propensity: mean", f"wrote the model to {tmp_path / 'm'}; next: unskew diag"):
        assert part in " ".join(result.stdout.split())


def test_fit_reads_the_log_as_options_and_settings_say(facts, tmp_path):
    rng = np.random.default_rng(3)
    pairs = [(u, i) for u in range(20) for i in range(15) if (u + i) % 3]
    lines = [f"{u};{i};{rng.integers(1, 6)}" for u, i in pairs] + ["0;1;5", "1;1;1"]
    (tmp_path / "log.csv").write_text("who;what;stars\n" + "\n".join(lines))
    for side, number in (("user", 20), ("item", 15)):
        rows = "".join(f"{n},{n % 7}\n" for n in range(number))
        (tmp_path / f"{side}s.csv").write_text(f"{side}_id,x\n{rows}")
    columns = ("--user", "who", "--item", "what", "--rating", "stars", "--graded", 1, 5)
    of_log = [f"log.{side}_features={tmp_path / side}s.csv" for side in ("user", "item")] + ["log.duplicates=last"]
    settings = ("propensity=logistic", "error=squared", "training.max_epochs=1", "training.batch_size=64", *of_log)
    by_set = [word for setting in settings for word in ("--set", setting)]
    found = facts("fit", tmp_path / "log.csv", "--method", "ips", *columns, *by_set, "--out", tmp_path / "m")
    assert (found["log"]["duplicates_merged"], found["log"]["ratings"]) == (2, 200)
    assert [(epoch["stage"], epoch["epoch"]) for epoch in found["history"]["epochs"]] == [("prediction", 1)]
    log = unskew.load(tmp_path / "m").log
    assert (log.scale.positive, log.scale.low, log.scale.high) == (None, 1, 5)
    assert None not in (log.user_features, log.item_features)


def test_fit_reports_what_random_ratings_were_used_for(run, files, tmp_path):
    (tmp_path / "random.csv").write_text((files / "test.csv").read_text() + "new,1,4\nnobody,2,1\n")
    words = ("fit", files / "ratings.csv", *NAIVE, "--random-ratings", tmp_path / "random.csv", "--out", tmp_path / "m")
    text = " ".join(run(*words).stdout.split())
    for step in str(unskew.load(tmp_path / "m").random_ratings).splitlines():
        assert " ".join(step.split()).rstrip(".") in text
    assert "2 more are of users or items that the log does not know" in text
    facts = json.loads(run(*words, "--json").stdout)
    assert facts["random_ratings"]["n_unknown"] == 2
    assert [each["kind"] for each in facts["random_ratings"]["corrections"]] == ["shift", "line"]


def test_a_file_alone_is_fitted_and_guesses_are_reported(run, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = (files / "ratings.csv").read_text().splitlines()[1:]
    rows = "".join(f"{line.replace(',', ';')};12345\n" for line in lines)
    (files / "other.csv").write_text(f"customer;sku;stars;timestamp\n{rows}")
    few = ("--set", "factors.sweeps=10")
    result = run("fit", files / "other.csv", *few)
    for part in ("separated by ';'", "users are in 'customer'", "3 or more, the middle or above, is liked"):
        assert part in result.stderr
    model = unskew.load(tmp_path / "model")
    assert type(model.method).__name__ == "DCEBayes"
    assert model.log.ratings.tolist() == unskew.read_log(files / "ratings.csv").ratings.tolist()
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]  # no state is left behind
    quiet = run("fit", files / "other.csv", "--out", "b", *few, "--json", "--quiet")
    facts = json.loads(quiet.stdout)
    assert (len(facts["log"]["guessed"]), facts["log"]["positive_from"], quiet.stderr) == (3, 3, "")


def test_evaluate_prints_the_librarys_evaluation(run, files, model, tmp_path):
    words = ("evaluate", model, files / "test.csv", "--k", 3, "--empty-users", "one", "--per-user")
    test = unskew.read_log(files / "test.csv")
    expected = unskew.evaluate(unskew.load(model), test, k=(3,), empty_users="one")
    assert str(expected) in run(*words, tmp_path / "users.csv").stdout
    facts = json.loads(run(*words, tmp_path / "users.parquet", "--json").stdout)
    assert facts["metrics"] == pytest.approx(expected.metrics)
    for rows in (rows_of(tmp_path / "users.csv"), pq.read_table(tmp_path / "users.parquet").to_pylist()):
        assert len(rows) == 60
        assert {"user_id", "auc", "ndcg@3"} <= set(rows[0])


def test_evaluate_takes_the_models_threshold_unless_given_one(run, files, tmp_path):
    run("fit", files / "ratings.csv", *NAIVE, "--positive", 4, "--out", tmp_path / "m")
    facts = json.loads(run("evaluate", tmp_path / "m", files / "test.csv", "--json").stdout)
    known = "the model was trained on ratings of 188 of these 720 pairs"
    assert (facts["positive_from"], facts["notes"]) == (4, [known])
    other = json.loads(run("evaluate", tmp_path / "m", files / "test.csv", "--positive", 3, "--json").stdout)
    assert other["positive_from"] == 3
    assert sorted(other["notes"]) == ["the model learned what is rated 4 or more, the test asks for 3 or more", known]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_predict_adds_a_column_to_the_rows(run, files, model, tmp_path, ending):
    out = tmp_path / f"predictions{ending}"
    run("predict", model, files / "pairs.csv", "--out", out)
    rows = pq.read_table(out).to_pylist() if ending == ".parquet" else rows_of(out, "\t" if ending == ".tsv" else ",")
    assert [row["user_id"] for row in rows] == [row["user_id"] for row in rows_of(files / "pairs.csv")]
    assert {row["remark"] for row in rows} == {"kept"}
    users, items = [row["user_id"] for row in rows], [int(row["item_id"]) for row in rows]
    np.testing.assert_allclose([float(row["prediction"]) for row in rows], unskew.load(model).predict(users, items))


def test_predict_counts_who_is_average_and_folds_new_users_in(run, model, tmp_path):
    (tmp_path / "pairs.csv").write_text("customer,sku\nnew,1\nu1,777\nu1,1\n")
    (tmp_path / "new.csv").write_text("user,item,stars\nnew,1,5\n")
    words = ("predict", model, tmp_path / "pairs.csv", "--out", tmp_path / "out.csv", "--on-unknown", "fallback")
    text = run(*words).stderr
    assert "users are in 'customer', items are in 'sku'" in text
    assert "2 of 3 pairs were answered for the average user or item (1 have an unknown user, 1 an" in text
    assert all(0 < float(row["prediction"]) < 1 for row in rows_of(tmp_path / "out.csv"))
    assert "1 of 3 pairs were answered" in run(*words, "--new-users", tmp_path / "new.csv").stderr


def test_recommend_writes_what_the_library_recommends(run, model, tmp_path):
    run("recommend", model, "--k", 3, "--out", tmp_path / "top.parquet")
    expected = unskew.load(model).recommend(k=3).to_pylist()
    assert pq.read_table(tmp_path / "top.parquet").to_pylist() == expected
    assert json.loads(run("recommend", model, "--k", 3, "--json").stdout)["recommendations"] == expected
    text = run("recommend", model, "--k", 4).stdout
    assert "the first of 5 of 60 users; --out FILE writes all of them" in text
    assert "a score is the log" not in text
    best = unskew.load(model).recommend(k=4).to_pylist()[0]
    first = [best["user_id"], "1", str(best["item_id"]), f"{best['score']:.4f}"]
    assert text.splitlines()[1].split() == first


def test_recommend_to_some_users_among_some_items(run, model, tmp_path):
    (tmp_path / "users.csv").write_text("who\nu1\nu2\nu1\nnew\n")
    (tmp_path / "items.csv").write_text("item_id\n1\n2\n999\n")
    words = ("recommend", model, "--for", tmp_path / "users.csv", "--user", "who", "--items", tmp_path / "items.csv")
    text = run(*words, "--keep-seen", "--on-unknown", "fallback", "--out", tmp_path / "top.csv").stderr
    for note in ("1 repeated ids were left out", "1 of 3 users are unknown", "24 places stayed empty"):
        assert note in text  # 3 users, 2 of 10 items each
    assert "warning: 1 items that the log does not know were left out.\n" in text
    rows = rows_of(tmp_path / "top.csv")
    assert [(row["user_id"], row["rank"]) for row in rows] == [(u, r) for u in ("u1", "u2", "new") for r in "12"]
    assert {row["item_id"] for row in rows} == {"1", "2"}


def test_split_writes_two_parts_that_are_read_as_the_log_was(run, tmp_path):
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
    (tmp_path / "odd.csv").write_text(f"userId,movieId,rating,seen at\n{rows}")
    asked = "split", tmp_path / "odd.csv", "--by", "time", "--out", tmp_path / "odd"
    assert "--time" in run(*asked, code=2).stderr
    run(*asked, "--time", "seen at")
    assert "seen at" in (tmp_path / "odd" / "test.csv").read_text()


@pytest.mark.parametrize("by", ["time", "request"])
def test_random_rows_are_divided_as_others_are(run, tmp_path, by):
    shop = unskew.datasets.simulate_funnel(40, 20, 300, random_share=0.3, seed=1)
    pyarrow.csv.write_csv(shop.rows, tmp_path / "shown.csv")
    run("split", tmp_path / "shown.csv", "--target", "click", "--by", by, "--out", tmp_path)
    train, test = (pyarrow.csv.read_csv(tmp_path / f"{name}.csv") for name in ("train", "test"))
    assert len(test) == 0.2 * len(shop.rows)
    assert not {*train["request"].to_pylist()} & {*test["request"].to_pylist()}
    assert pa.concat_tables([train, test]).sort_by("time").equals(pyarrow.csv.read_csv(tmp_path / "shown.csv"))
    assert 0 < sum(test["is_random"].to_pylist()) < 0.5 * len(test)
    assert by == "request" or max(train["time"].to_pylist()) < min(test["time"].to_pylist())


def test_lists_and_neighbours_have_titles(run, files, tmp_path):
    titles = "".join(f'{item},"Film {item}, the"\n' for item in range(40))
    (tmp_path / "films.csv").write_text(f"item_id,title\n{titles}")
    run("fit", files / "ratings.csv", *NAIVE, "--item-names", tmp_path / "films.csv", "--out", tmp_path / "m")
    assert "Film" in run("recommend", tmp_path / "m", "--k", 2).stdout
    rows = json.loads(run("similar", tmp_path / "m", "--item", 3, "--k", 2, "--json").stdout)
    assert [row["title"] for row in rows] == ["Film 3, the"] * 2
    assert all(row["similar_title"] == f"Film {row['similar_item_id']}, the" for row in rows)


def test_export_writes_vectors_and_scorers_next_to_the_model(run, facts, model, tmp_path):
    pytest.importorskip("onnxruntime")
    here = tmp_path / "model"
    unskew.load(model).save(here)
    assert "onnxruntime answers as the model does for 10,000 random pairs" in run("export", here, "--to", "onnx").stdout
    assert facts("export", here, "--to", "parquet")["users"] == unskew.load(here).log.n_users
    assert {path.name for path in tmp_path.iterdir()} == {"model", "model.onnx", "model.vectors"}


def test_a_models_folder_is_a_log_and_holds_its_recipe(run, model, tmp_path):
    run("fit", model, "--method", model / "recipe.toml", "--out", tmp_path / "again")
    one, other = ((folder / "weights.safetensors").read_bytes() for folder in (model, tmp_path / "again"))
    assert one == other


def test_the_recipe_of_a_model_reads_the_file_on_its_scale_with_its_seed(run, facts, files, tmp_path):
    few = ("--method", "naive", "--set", "training.max_epochs=1", "--positive", 4, "--seed", 9)
    run("fit", files / "ratings.csv", *few, "--out", tmp_path / "a")
    again = ("fit", files / "ratings.csv", "--method", tmp_path / "a" / "recipe.toml")
    noted = run(*again, "--out", tmp_path / "b").stderr
    assert noted.count("\n") == 1  # the log: nothing had to be guessed
    one, other = (unskew.load(tmp_path / name) for name in "ab")
    assert (other.seed, other.log.scale, other.training) == (9, one.log.scale, one.training)
    np.testing.assert_array_equal(one.predict("u1", 1), other.predict("u1", 1))
    changed = facts(*again, "--out", tmp_path / "c", "--positive", 3, "--seed", 1)
    assert (changed["seed"], changed["log"]["positive_from"]) == (1, 3)


ODD_IDS = ("=1+1", "@sum", "-x", "\x1b[31mred", "a|b_*c*", r"\input{x} & 5%", "<b>", "tab\there")


def test_odd_ids_come_back_as_they_are_and_harm_nothing(run, files, tmp_path):
    """Files hold them to the letter, terminals get no control characters, spreadsheets no formulas if asked."""
    lines = (files / "ratings.csv").read_text().splitlines()
    with (tmp_path / "odd.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(lines[0].split(","))
        for line in lines[1:]:
            user, item, rating = line.split(",")
            table.writerow((user, ODD_IDS[int(item)] if int(item) < len(ODD_IDS) else f"i{item}", rating))
    run("fit", tmp_path / "odd.csv", *NAIVE, "--out", tmp_path / "m")
    words = ("recommend", tmp_path / "m", "--k", 40, "--keep-seen", "--out")
    noted = run(*words, tmp_path / "a.csv").stderr
    assert "cells of 'item_id'" in noted
    assert "--spreadsheet quotes them" in noted
    assert {row["item_id"] for row in rows_of(tmp_path / "a.csv")} >= set(ODD_IDS)
    run(*words, tmp_path / "b.csv", "--spreadsheet")
    quoted = {row["item_id"] for row in rows_of(tmp_path / "b.csv")}
    assert {"'=1+1", "'@sum", "'-x", "a|b_*c*"} <= quoted
    assert not any(item.startswith(("=", "@", "-")) for item in quoted)
    (tmp_path / "red.csv").write_text("item_id\n\x1b[31mred\n")
    shown = run("recommend", tmp_path / "m", "--items", tmp_path / "red.csv", "--keep-seen").stdout
    assert "\x1b" not in shown
    assert "\N{REPLACEMENT CHARACTER}[31mred" in shown
