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
REGISTERED = {entry.name: entry.build() for entry in unskew.registered()}
TINY = ["--size", "40", "30", "--seeds", "2"]


def script(name):
    """A script of the folder as the module it is when it is run; worker processes find it by the same path."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


scripts, worlds = map(script, ("scripts", "worlds"))


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
        assert (role.part is truth, role.part is truth and role.clip == 0.01) == (source == "true",) * 2
    prediction = method.plan().roles["prediction"]
    if isinstance(method, unskew.DCEBayes):  # which is made of no nets
        return
    naive = worlds.naive_beside(method)
    assert naive.net == prediction.part or prediction.shares_with
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
