"""Claims about the benchmark scripts: runs resume, every registered method fits in."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

import unskew
from unskew.bench.jobs import Outcome, Stopped

FOLDER = Path(__file__).parents[2] / "benchmarks"
REGISTERED = {entry.name: entry.build() for entry in unskew.methods()}
TINY = ["--size", "40", "30", "--seeds", "2"]


def script(name):
    """A script of the folder as the module it is when it is run; worker processes find it by the same path."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


scripts, worlds, coat_methods = map(script, ("scripts", "worlds", "coat_methods"))


def test_a_script_ends_with_one_sentence_and_the_usual_exit_code(capsys):
    for raised, code, sentence in (
        (Stopped("Stopped."), 130, "Stopped.\n"),
        (unskew.DataError("Too small."), 2, "error: Too small.\n"),
    ):

        def main(raised=raised):
            raise raised

        with pytest.raises(SystemExit) as ended:
            scripts.script(main)
        assert ended.value.code == code
        assert capsys.readouterr().err == sentence


@pytest.mark.parametrize("name", REGISTERED)
def test_every_method_is_told_the_truth_where_it_takes_a_propensity_and_meets_naive_with_its_net(name):
    method, truth = REGISTERED[name], unskew.Known(lambda users, items: 0.5)
    role = worlds.told(method, truth).plan().roles.get("propensity")
    source = worlds.propensity_of(method)
    if role is None:
        assert source == "none"
    else:
        assert (role.net is truth, role.net is truth and role.clip == 0.01) == (source == "true",) * 2
    prediction = method.plan().roles["prediction"]
    naive = worlds.naive_beside(method)
    assert naive.net == prediction.net or prediction.on
    assert naive == unskew.Naive(net=naive.net)


def test_wrapped_methods_are_told_the_truth_and_joint_ones_keep_their_own():
    sources = {name: worlds.propensity_of(unskew.make(name)) for name in ("naive", "ips", "dce-dr")}
    assert sources == {"naive": "none", "ips": "true", "dce-dr": "true"}
    assert worlds.propensity_of(unskew.MultiDR()) == "own"
    assert worlds.naive_beside(unskew.MultiDR()) == unskew.Naive()


def test_worlds_prints_each_method_beside_naive_names_the_losers_and_resumes(tmp_path, capsys):
    file, out = tmp_path / "w.jsonl", tmp_path / "table.md"
    asked = [*TINY, "--method", "naive", "--method", "snips", "--records", str(file), "--out", str(out)]
    worlds.main(asked)
    printed = capsys.readouterr().out
    assert out.read_text() == printed
    lines = file.read_text().splitlines()
    found = {record["key"]: record["values"]["risk"] for record in map(json.loads, lines)}
    assert len(found) == len(lines) == 8
    means = {key[:-2]: (found[key] + found[f"{key[:-1]}1"]) / 2 for key in found if key.endswith("/0")}
    for selection in worlds.SELECTIONS:
        difference = means[f"{selection}/snips"] - means[f"{selection}/naive"]
        assert f"| {means[f'{selection}/snips']:.4f} ± " in printed
        assert f"| {difference:+.4f} (p " in printed
        assert f"- {selection}: {'none' if difference < 0 else 'snips'}\n" in printed
    worlds.main(asked)
    assert file.read_text().splitlines() == lines
    assert capsys.readouterr().out == printed


def test_a_method_with_another_net_brings_the_naive_that_has_it():
    net = unskew.MF(n_factors=3)
    compared = worlds.Comparison({"naive": unskew.Naive(), "mine": unskew.IPS(net=net)}, (40, 30), 1)
    assert compared.naive["naive"] == "naive"
    assert compared.methods[compared.naive["mine"]] == unskew.Naive(net=net)
    assert len(compared.jobs()) == 3 * len(worlds.SELECTIONS)


def test_a_fit_that_broke_off_is_a_case_that_fails():
    compared = worlds.Comparison({"naive": unskew.Naive(), "ips": unskew.IPS()}, (40, 30), 1)
    values = {"popularity/naive/0": {"risk": 0.2}, "popularity/ips/0": {"risk": 0.1}, "taste/naive/0": {"risk": 0.2}}
    outcome = Outcome(values, {"taste/ips/0": "It left."})
    assert "| ips | true | 0.1000 | -0.1000 | failed |  |" in compared.table(outcome)
    assert compared.cases_that_fail(outcome).endswith("- popularity: none\n- taste: ips")


def test_coat_methods_reports_what_evaluate_says_and_resumes(tmp_path, capsys, monkeypatch):
    world = unskew.simulate(n_users=60, n_items=40, density=0.2, test_per_user=3, seed=1)  # some without a positive
    data = unskew.datasets.Dataset("coat", world.log, world.test, None, ())
    monkeypatch.setattr(coat_methods, "coat", lambda folder: data)
    methods = {"naive": unskew.Naive(), "snips": unskew.SNIPS(propensity=unskew.Additive())}
    monkeypatch.setattr(coat_methods, "chosen", lambda names: methods)
    asked = ["anywhere", "--seeds", "2", "--records", str(tmp_path / "c.jsonl"), "--out", str(tmp_path / "table.md")]
    coat_methods.main(asked)
    printed = capsys.readouterr().out
    for name, method in methods.items():
        fits = [method.fit(world.log, seed=seed, training=unskew.Training(progress=False)) for seed in (0, 1)]
        found = [unskew.evaluate(fit, world.test, empty_users="one") for fit in fits]
        cells = [
            scripts.mean_and_sd([each[metric] for each in found]) for metric in ("mse", "auc", "ndcg@5", "ndcg@10")
        ]
        assert f"| {name} | {' | '.join(cells)} | " in printed
    for words in ("positive from 3", 'empty_users="one"', "seeds 0 to 1", "not chosen blind to this test set"):
        assert words in printed
    coat_methods.main(asked)
    assert capsys.readouterr().out == printed == (tmp_path / "table.md").read_text()


def test_both_sides_of_the_speed_benchmark_take_steps():
    speed = script("speed")
    log = speed.world(n_users=40, n_items=30, density=0.3)
    assert speed.our_epoch(log, 32, 4)() == 11
    speed.PlainStep(log, 32, 4).take(2)
    model = unskew.make("dce-dr").fit(log, training=unskew.Training(max_epochs=1, progress=False))
    assert speed.tables_of(model) > 3 * 4 * 2 * 70 * 64


def test_the_benchmark_of_the_rules_tells_loss_and_order_of_every_variant(tmp_path, monkeypatch, capsys):
    rules = script("rules")
    monkeypatch.setattr(rules, "WORLDS", {"tiny": {"n_users": 40, "n_items": 30, "density": 0.3}})
    monkeypatch.setattr(rules, "TRAINING", unskew.Training(max_epochs=2, progress=False))
    variants = {"x 1": rules.Variant(unskew.Naive()), "x 2": rules.Variant(unskew.Naive(), l2=2.0, batch=0.5)}
    monkeypatch.setattr(rules, "parts", lambda: {"l2": (variants, ("tiny", rules.COAT))})
    rules.main(["--seeds", "1", "--records", str(tmp_path / "r.jsonl"), "--out", str(tmp_path / "table.md")])
    head, _, row = capsys.readouterr().out.splitlines()[:3]
    assert [cell.strip() for cell in head.split("|")[1:-1]] == ["l2", "x 1", "x 2"]
    (loss, order), other = (tuple(map(float, cell.split(", "))) for cell in row.split("|")[2:-1])
    assert 0.5 < loss < 1
    assert 0.4 < order < 1
    assert other != (loss, order)
