"""Names that went, each with what to use instead, so that who asks for one gets a sentence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from unskew.errors import ParameterError

BAYES = ("dce-bayes", "dce-dr")  # the first that is registered
METHODS: dict[str, tuple[str, ...]] = {
    "naive-utility": BAYES,
    "ips-utility": BAYES,
    "dr-utility": BAYES,
    "dce-utility": BAYES,
    "dce-tdr-utility": BAYES,
    "dce-shared-utility": BAYES,
    "utility-model": BAYES,
}
NAMES = {
    "Ensemble": "the method itself",
    "NaiveUtility": "DoublyCalibrated",
    "OddsSensitivity": "diagnose",
    "Sensitivity": "diagnose",
    "Utility": "Factors, or NaiveBayes with random ratings",
    "UtilityModel": "DoublyCalibrated",
    "odds_sensitivity": "diagnose",
    "sensitivity": "diagnose",
}
COMMANDS = {"odds": "use `unskew diagnose`"}
OPTIONS = {
    "--members": "fit one model, by one seed",
    "--odds": "use `unskew diagnose`",
}
SETTINGS = {"n_members": "fit one model, by one seed"}  # of methods
# Settings that old recipes and models still hold: the values that change nothing, None if all of them do.
FIELDS: dict[str, dict[str, tuple[Any, ...] | None]] = {
    "Contents": {"members": ([],)},
    "History": {"tried": None},
    "Training": {"member": (0,), "part": (0,), "workers": None},
}


def sentence_about_method(name: str, registered: Collection[str]) -> str | None:
    """Say what to use for a method that went; None for a name that never was one."""
    instead = next((other for other in METHODS.get(name, ()) if other in registered), None)
    return None if instead is None else f"The method {name!r} is gone: use {instead!r}."


def sentence_about_name(name: str) -> str | None:
    """Say what to use for a class or function that went; None for a name that never was one."""
    return None if name not in NAMES else f"unskew.{name} is gone: use {NAMES[name]}."


def sentence_about_words(complaint: str) -> str | None:
    """Say what to use for a command or an option that went, of which a parser complains in its own words."""
    for kind, known in (("command", COMMANDS), ("option", OPTIONS)):
        if complaint.lower().startswith(f"no such {kind}"):
            name = next((word for word in (each.strip("'\":.,") for each in complaint.split()) if word in known), None)
            return None if name is None else f"{name} is gone: {known[name]}."
    return None


def refuse_gone_setting(name: str) -> None:
    """Refuse a setting of methods that went."""
    if name in SETTINGS:
        raise ParameterError(f"The setting {name!r} is gone: {SETTINGS[name]}.")


def without_gone(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out settings that went, where an old file holds them and they change nothing; refuse them elsewhere."""
    gone = FIELDS.get(kind, {})
    for name in settings.keys() & gone.keys():
        harmless = gone[name]
        if harmless is not None and settings[name] not in harmless:
            raise ParameterError(
                f"{kind} has no setting {name!r} any more, and here it is {settings[name]!r}: fit again."
            )
    return {name: value for name, value in settings.items() if name not in gone}
