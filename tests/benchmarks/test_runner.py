"""Claims about `python -m benchmarks`: jobs are recorded once, tables are what records say, worlds obey their law.

Peers are tuned on the log alone and measured as ours are; decisions of the judge are counted as right, wrong and open.
"""

import json
import math
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

import benchmarks.__main__ as runner
import unskew
from benchmarks import cases, judge, peers, pictures, quality, speed, tables

ROOT = Path(__file__).parents[2]
WORLD = unskew.simulate(80, 50, density=0.3, seed=0)
NOWHERE = Path("nowhere")
tiny = partial(cases.simulated, "taste", n_users=60, n_items=40, test_per_user=5)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """An experiment of seconds, two methods on a world without files: runs its command and gives all records."""
    monkeypatch.setattr(quality, "warm_up", lambda name: None)

    def run(*words, measure=quality.measure):
        made = cases.Experiment("a tiny world", ("naive", "snips"), {"tiny": tiny, "other": tiny}, 2, measure)
        monkeypatch.setitem(runner.EXPERIMENTS, "small", made)
        assert runner.main(["run", "small", "--records", str(tmp_path), "--case", "tiny", *words]) == 0
        return tables.read(tmp_path / "small.jsonl")

    return run


def test_a_record_is_of_the_loaded_model_and_names_its_settings(small, tmp_path):
    (record,) = small("--seeds", "1", "--method", "naive")
    case = tiny(NOWHERE, 0)
    model = unskew.make("naive").fit(case.train, seed=0, training=cases.QUIET)
    model.save(tmp_path / "model")
    found = unskew.evaluate(unskew.load(tmp_path / "model"), case.test, empty_users="one")
    assert {m: record["metrics"][m] for m in quality.METRICS} == {m: found[m] for m in quality.METRICS}
    assert record["metrics"]["truth: true risk"] == pytest.approx(case.world.risk(model.predict_codes))
    assert {"case": "tiny", "method": "naive", "seed": 0}.items() <= record.items()
    assert {"unskew", "commit", "date", "numpy", "numba"} <= record.keys()
    assert record["settings"]["method"] == repr(unskew.make("naive"))


def test_a_run_resumes_replaces_when_asked_and_gives_settings_of_seed_0(small):
    jobs = []

    def measure(job):
        jobs.append((job.method, job.seed, job.settings))
        return cases.Measured({"mse": 0.25 + len(jobs)}, {"tuned at": len(jobs)})

    small("--method", "snips", measure=measure)
    for _ in range(2):  # the second finds nothing left to do
        small(measure=measure)
        snips, naive = [("snips", 0, None), ("snips", 1, {"tuned at": 1})], [("naive", 0, None)]
        assert jobs == [*snips, *naive, ("naive", 1, {"tuned at": 3})]
    records = small("--method", "snips", "--again", measure=measure)
    assert jobs[4:] == [("snips", 0, None), ("snips", 1, {"tuned at": 5})]
    found = {tables.key_of(each): each["metrics"]["mse"] for each in records}
    assert len(found) == len(records) == 4
    assert found["tiny", "snips", 0] == 5.25


def made(case, method, values, metric="auc"):
    named = {"case": case, "method": method, "date": "2026-11-18"}
    return [{**named, "seed": seed, "metrics": {metric: value}} for seed, value in enumerate(values)]


def test_the_default_is_compared_with_the_best_of_each_kind():
    ours, naive = [0.83, 0.84, 0.852], [0.78, 0.79, 0.771]
    dr, tdr, peer = [0.75, 0.76, 0.75], [0.76, 0.77, 0.78], [0.83, 0.85, 0.86]
    for case, test in (("coat", partial(ttest_ind, equal_var=False)), ("jester, uniform", ttest_rel)):
        records = made(case, "dce-bayes", ours) + made(case, "naive", naive) + made(case, "dce-dr", dr)
        found = tables.compare([*records, *made(case, "dce-tdr", tdr), *made(case, "myfm", peer)])
        assert {each.kind: each.other for each in found} == {"naive": "naive", "paper": "dce-tdr", "peer": "myfm"}
        raw = [test(ours, other).pvalue for other in (naive, tdr, peer)]
        first, second, third = np.argsort(raw)
        holm = {first: 3 * raw[first], second: max(3 * raw[first], 2 * raw[second])}
        holm[third] = max(holm[second], raw[third])
        assert [each.p for each in found] == pytest.approx([min(holm[k], 1) for k in range(3)])
        assert found[2].gain == pytest.approx(np.mean(ours) - np.mean(peer))
    lower = tables.compare(made("coat", "dce-bayes", [0.16, 0.17], "mse") + made("coat", "naive", [0.19, 0.2], "mse"))
    assert lower[0].gain == pytest.approx(0.03)
    worse = made("coat", "dce-bayes", [0.7, 0.8]) + made("coat", "naive", [0.6]) + made("coat", "myfm", [0.8])
    assert tables.behind(worse).splitlines()[2:] == ["| coat | auc | 0.7500(707) | `myfm` 0.8000 |"]


def test_a_page_holds_what_its_records_say(tmp_path):
    tables.write(tmp_path / "quality.jsonl", "\n".join(map(json.dumps, made("coat", "naive", [0.7, 0.8], "x: y"))))
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- table quality figures x -->\nold\n<!-- end -->\nAfter.\n")
    assert runner.main(["table", "--page", str(page), "--records", str(tmp_path)]) == 0
    before, table, after = re.split("<!--.*-->", page.read_text())
    assert (before, after) == ("Before.\n", "\nAfter.\n")
    assert table.strip().splitlines()[2:] == ["| coat | `naive` | 2 | 0.7500(707) |", "", "*2 fits, 2026-11-18.*"]
    for name in ("benchmarks.md", "guides/impressions.md", "guides/serve.md"):
        page = (ROOT / "docs" / name).read_text()
        assert tables.with_tables(page, runner.RECORDS) == page


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("run cloth", "experiment must be 'quality', 'peers', 'speed', 'funnel', 'loop' or 'judge', not 'cloth'."),
        ("run quality --method nave", "--method must be 'naive', 'dr-jl', "),
        ("run quality --case cloth", "--case must be 'coat', "),
        ("run quality --seeds 0", "--seeds must be a whole number from 1 to "),
        ("table quality --records .", "There are no records"),
        ("table quality --records broken", "quality.jsonl, line 1 is no record of a fit"),
        ("run quality --data . --case movielens --method naive --records .", "be read"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_code_2(asked, sentence, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    tables.write(Path("broken/quality.jsonl"), '{"case": "coat"}\n')
    assert runner.main(asked.split()) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert "Traceback" not in printed


def test_lists_are_measured_as_counted_by_hand():
    log = unskew.RatingLog.from_arrays([0, 0, 1], [0, 1, 2], [5, 1, 4], positive=3, user_ids=[0, 1], item_ids=range(4))
    found = quality.list_figures(np.array([[0, 1], [0, 3]]), log, "choice")
    assert found == {"choice: liked in ten": 0.5, "choice: items": 3.0, "choice: commonest first": 1.0}


def test_left_out_ratings_are_answered_by_fits_without_them():
    factors = quality.with_columns(unskew.BayesianFactors(), ["Who-saw-what enters: left-out ratings gain."])
    assert (factors.exposure, factors.history) == (True, False)
    asked, log = [], WORLD.log

    class Spy:
        def fit(self, log, **_):
            known = set(zip(log.users.tolist(), log.items.tolist(), strict=True))

            def predict_codes(users, items):
                asked.extend(zip(users.tolist(), items.tolist(), strict=True))
                assert not known & set(asked[-len(users) :])
                return np.full(len(users), 0.25)

            return SimpleNamespace(predict_codes=predict_codes)

    found = quality.left_out_calibration(Spy(), log, 0)
    assert found == pytest.approx(abs(log.ratings.mean() - 0.25), abs=1e-6)
    assert len(set(asked)) == len(asked) == len(log)


def test_the_table_of_speed_has_the_figures_of_the_performance_page():
    records = tables.read(runner.RECORDS / "speed.jsonl")
    timed = {(record["case"], record["method"]) for record in records}
    assert timed <= {(case, method) for method, (_, its) in speed.TIMED.items() for case in its}
    found = dict(line.split(" | ")[1:3] for line in speed.table(records).splitlines() if " | " in line)
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for name, words in {
        "sweep: processor seconds": "| {:.3f} s; SMURFF",
        "sweep: myfm's time over ours": "myFM {:.1f} times",
        "sweep: gain": "{:.2f} times as fast by the clock",
        "epoch: naive's time over Cornac's": "Cornac's MF | {:.1f} times",
        "lists: over NumPy's": "{:.2f} times NumPy's",
        "command: processor seconds": "whole command | {:.2f} s",
        "reading: times of pyarrow.csv, processor time": "{:.1f} times its processor time",
        "load: /predict, processor ms of the server": "`/predict` {:.1f} ms",
    }.items():
        assert words.format(float(found[name])) in page, name


@pytest.mark.parametrize(("law", "slope"), [("uniform", 0.0), ("popularity", 0.0), ("rating", 0.9), ("taste", 0.6)])
def test_pairs_are_seen_by_the_law_of_their_world(law, slope):
    stars = np.random.default_rng(3).integers(0, 5, (400, 50))
    seen, probability = cases.select(stars, law, slope, seed=1)
    assert probability.mean() == pytest.approx(0.12, abs=1e-9)
    assert abs((seen - probability).sum()) < 4 * math.sqrt((probability * (1 - probability)).sum())
    log_odds = np.log(probability / (1 - probability))
    if law == "uniform":
        assert np.ptp(log_odds) < 1e-9
    liking = {"rating": stars, "taste": cases.taste(stars)}.get(law, np.zeros(stars.shape))
    rest, liking = (x - x.mean(0) - x.mean(1, keepdims=True) + x.mean() for x in (log_odds, liking))
    assert np.allclose(rest, slope * liking)
    assert np.array_equal(cases.select(stars, law, slope, seed=1)[0], seen)
    assert not np.array_equal(cases.select(stars, law, slope, seed=2)[0], seen)


def test_the_guide_names_what_lists_promise_by_the_records():
    text, records = (ROOT / "docs/guides/serve.md").read_text(), tables.gathered(runner.RECORDS, "loop")
    shown, found = re.findall(r"(\d\.\d)%", text), []
    for method in ("naive, greedy", "dce-bayes, thompson .1"):
        for rounds in (range(1, 5), range(13, 17)):
            names = [f"round {number}: promise" for number in rounds]
            own = [record["metrics"][name] for record in records if record["method"] == method for name in names]
            found.append(f"{100 * np.mean(own):.1f}")
    assert shown[:4] == found


def test_the_picture_of_the_loop_is_that_of_its_records():
    records = tables.gathered(runner.RECORDS, "loop")
    assert f"{pictures.loop(records)._repr_svg_()}\n" == (ROOT / "docs" / "loop.svg").read_text()


def test_trials_see_the_log_alone_and_the_test_is_read_once(monkeypatch):
    pytest.importorskip("optuna")
    asked = []

    def fit(log, y, pairs, seed, x, sweeps):
        asked.append((len(log), len(pairs), seed))
        return np.asarray(x * (2 * pairs.ratings - 1) + np.arange(len(pairs)) % 5, float)

    monkeypatch.setitem(peers.PEERS, "made", peers.Peer("numpy", fit, {"x": (0.1, 0.01, 9.0), "sweeps": 4}))
    job = cases.Job("tiny", "made", 3, cases.Case(WORLD.log, WORLD.test))
    first = peers.measure(job)
    assert len(asked) == peers.TRIALS + 2
    tenths = {(rows, pairs) for rows, pairs, _ in asked[:-1]}
    assert {sum(pair) for pair in tenths} == {len(WORLD.log)}
    assert len(tenths) == 1
    assert asked[-1] == (len(WORLD.log), len(WORLD.test), 3)
    assert first.settings["x"] > 1.9  # from 2 on it tells liked from not without fail
    assert peers.measure(job._replace(settings=first.settings)).metrics["auc"] == first.metrics["auc"]
    assert len(asked) == peers.TRIALS + 3
    assert first.versions == {"numpy": np.__version__}


def test_the_ridge_on_liked_ratings_is_ease_in_closed_form():
    log, penalty = WORLD.log, 7.0
    x, seen = np.zeros((log.n_users, log.n_items)), np.zeros((log.n_users, log.n_items), bool)
    x[log.users, log.items], seen[log.users, log.items] = log.ratings > 0, True
    inverse = np.linalg.inv(x.T @ x + penalty * np.eye(log.n_items))
    top = peers.liked_ridge(log, log.ratings, log, 0, penalty)
    assert np.array_equal(top, peers.top_unseen(x @ (np.eye(log.n_items) - inverse / np.diag(inverse)), log))
    assert not np.take_along_axis(seen, top, 1).any()


def test_the_table_counts_decisions_by_what_drives_seeing():
    for order, squared, sign in (0.01, 0.002, 1), (-0.01, 0.0, -1), (0.001, 0.0005, 0), (0.01, -0.002, None):
        assert judge.sign_of({"a, b: true order": order, "a, b: true squared": squared}, "a, b") == sign
    found = {"uniform": (1, 0.02), "popularity": (-1, 0.02), "jester, taste .6": (0, 0.02), "coat": (1, 0)}
    always = {"by rating": 0.0, "band holds": 1.0, "plain, bayes: z of order": 0.1, "plain, bayes: true squared": 0.0}
    records = [
        {"case": case, "metrics": {**always, "plain, bayes: decided": decided, "plain, bayes: true order": order}}
        for case, (decided, order) in found.items()
    ]
    rows = dict(line.strip("| ").split(" | ", 1) for line in judge.table(records).splitlines() if line.startswith("| "))
    assert rows["all"] == "1 | 1 | 1"
    assert rows["seeing driven by exposure"] == "0 | 1 | 0"
    assert rows["seeing driven by taste"] == "0 | 0 | 1"
    assert rows["level pairs decided: at most 5%"] == "100.0% (1 of 1)"


def test_the_page_about_trust_shows_what_the_records_of_the_judge_say():
    printed = judge.table(tables.gathered(runner.RECORDS, "judge")).splitlines()
    _, _, section = (ROOT / "docs" / "trust.md").read_text().partition("## Is the decision right?")
    shown = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    assert len(shown) > 20
    assert set(shown) <= set(printed)
