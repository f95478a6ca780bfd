"""Names that went, each with what to use instead, so that who asks for one gets a sentence."""

from __future__ import annotations

from collections.abc import Collection

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
    "NaiveUtility": "DoublyCalibrated",
    "OddsSensitivity": "diagnose",
    "Sensitivity": "diagnose",
    "Utility": "Factors, or NaiveBayes with random ratings",
    "UtilityModel": "DoublyCalibrated",
    "odds_sensitivity": "diagnose",
    "sensitivity": "diagnose",
}
COMMANDS = {"odds": "use `unskew diagnose`"}
OPTIONS = {"--odds": "use `unskew diagnose`"}


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
