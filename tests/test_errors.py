"""Claims about the sentences about unknown names."""

import pytest

from unskew.errors import nearest


@pytest.mark.parametrize(
    ("name", "choices", "end"),
    [
        ("nave", ["ips", "naive"], "; did you mean 'naive'?"),
        ("ips", ["IPS", "SNIPS"], "; did you mean 'IPS'?"),
        (" User ID", ["user_id", "rating"], "; did you mean 'user_id'?"),
        ("user_id", [" User ID ", "rating"], "; did you mean ' User ID '?"),
        ("mf", ["MF", "mf"], "; did you mean 'MF'?"),
        ("dce", ["ce", "dr", "dce-dr", "dce-mrdr"], "; did you mean 'dce-dr' or 'dce-mrdr'?"),
        ("IPS-", ["ips", "ips-light"], "; did you mean 'ips-light'?"),
        ("na", [f"name{n}" for n in range(9)], "; did you mean 'name0', 'name1', 'name2', 'name3' or 'name4'?"),
        ("n", ["naive"], "."),
        ("xyz", ["ips", "naive"], "."),
        ("ips", [], "."),
        (3, ["ips"], "."),
    ],
)
def test_the_choice_most_like_an_unknown_name_is_offered_in_any_case(name, choices, end):
    assert nearest(name, choices) == end


def test_a_sentence_chooses_what_stands_before_the_hint_and_instead_of_it():
    assert nearest("tast", ["taste"], ": ", ": choose.") == ": did you mean 'taste'?"
    assert nearest("x", ["taste"], ": ", ": choose.") == ": choose."
