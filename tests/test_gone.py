"""Names that went answer with what to use, which is there; names that never were with those most like them."""

import re

import pytest
from typer.testing import CliRunner

import unskew
from unskew import gone
from unskew.cli import app
from unskew.errors import ParameterError, nearest
from unskew.store.recipe import from_plain

REGISTERED = {entry.name for entry in unskew.registered()}


# All names that `unskew` has had: each is there, or answers with what replaces it.
PUBLIC = re.findall(
    r"\w+",
    """
    AT Additive BRDDR Bayes BayesianFactors CVIB CacheWarning CalibrationSummary Calibrator Comparison DCEBayes
    DR DRJL DRJLPublished DRML DRMSE DataError Dense Diagnosis DivergedError DoublyCalibrated EIB ESCM2DR
    Ensemble Evaluation ExpertPlatt Factors Finding Findings GlobalPlatt IPS Known Logistic MF MR MRDR MRDRDL
    Method ModelFileError MultiDR NCF Naive NaiveBayes NaiveUtility OddsSensitivity ParameterError PlanError
    Popularity Propensity PublishedExperts PublishedFactors RandomPlatt RandomRatings RatingLog Recommender Risk
    SNIPS Sensitivity SharedDR SharedEmbedding Slice Split StableDR TDR TMRDR Training Trunk Uniform UnskewError
    UserPlatt Utility UtilityModel World __version__ adapters bench calibration_summary compare datasets
    debiased_calibration_error diagnose estimate_risk evaluate expected_calibration_error export fit folds
    holdout_split load make maximum_calibration_error metrics odds_sensitivity read_log register registered
    reliability_bins sensitivity simulate theory write_report
    """,
)


def test_every_public_name_is_there_or_answers():
    for name in PUBLIC:
        if name in gone.NAMES:
            with pytest.raises(AttributeError, match=rf"^unskew.{name} is gone: use .*\.$"):
                getattr(unskew, name)
            first = re.split(r"[ ,(]", gone.NAMES[name])[0]
            assert first == "the" or hasattr(unskew, first), name
        else:
            assert hasattr(unskew, name), name
    assert gone.NAMES.keys() <= set(PUBLIC)


def test_a_method_that_went_names_a_registered_one():
    for name in gone.METHODS:
        assert name not in REGISTERED
        with pytest.raises(ParameterError, match=f"^The method '{name}' is gone: use '[a-z-]+'.$") as refused:
            unskew.make(name)
        assert str(refused.value).split("'")[3] in REGISTERED


@pytest.mark.parametrize("words", [[name] for name in gone.COMMANDS] + [["doctor", name] for name in gone.OPTIONS])
def test_a_command_or_option_that_went_is_refused_in_a_sentence(words):
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert found.stderr.startswith(f"error: {words[-1]} is gone: ")
    assert found.stderr.count("\n") == 1


def test_options_of_training_that_went_are_refused_in_a_sentence():
    for name in gone.TRAINING:
        with pytest.raises(ParameterError, match=rf"^Training has no option '{name}' any more: .*\.$"):
            unskew.Training(**{name: 1})


def test_settings_that_went_are_refused_in_a_sentence():
    recipe = {"kind": "Naive", "n_members": 5}  # as a file or --set has it
    for use in (lambda: unskew.make("dce-dr", n_members=5), lambda: from_plain(recipe)):
        with pytest.raises(ParameterError, match=r"^The setting 'n_members' is gone: .*\.$"):
            use()
    for setting in ("l2", "clip"):
        with pytest.raises(ParameterError, match=rf"^{setting}='auto' is gone: .* `unskew tune`\.$"):
            unskew.make("ips", **{setting: "auto"})


def test_old_files_are_read_where_what_went_changes_nothing():
    old = {"kind": "Training", "max_epochs": 3, "checkpoint": "", "spread": False, "member": 0, "engine": "compiled"}
    assert from_plain(old) == unskew.Training(max_epochs=3)
    net = {"kind": "MF", "n_factors": 4, "features": "auto", "feature_l2": 0.7}
    assert from_plain(net) == unskew.MF(n_factors=4)
    for broken in (old | {"checkpoint": "states"}, net | {"features": "always"}):
        with pytest.raises(ParameterError, match=r"has no setting '\w+' any more, and here it is '\w+': fit again\.$"):
            from_plain(broken)


@pytest.mark.parametrize(
    ("name", "choices", "end"),
    [
        ("nave", ["ips", "naive"], "; did you mean 'naive'?"),
        ("ips", ["IPS", "SNIPS"], "; did you mean 'IPS'?"),
        (" User ID", ["user_id", "rating"], "; did you mean 'user_id'?"),
        ("dce", ["ce", "dr", "dce-dr", "dce-mrdr"], "; did you mean 'dce-dr' or 'dce-mrdr'?"),
        ("IPS-", ["ips", "ips-light"], "; did you mean 'ips-light'?"),
        ("na", [f"name{n}" for n in range(9)], "; did you mean 'name0', 'name1', 'name2', 'name3' or 'name4'?"),
        ("xyz", ["ips", "naive"], "."),
        (3, ["ips"], "."),
    ],
)
def test_the_choice_most_like_an_unknown_name_is_offered_in_any_case(name, choices, end):
    assert nearest(name, choices) == end
