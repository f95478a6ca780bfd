"""The smallest worlds in which the theory fails as it is printed; a test checks each, docs/theory.md tells them."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.theory.bounds import corollary_3, theorem_2, theorem_4
from unskew.theory.lemma import bias, label_errors, rating_driven_bias


@dataclass(frozen=True)
class CounterExample:
    """A statement, a world of one or two pairs, what is true there and what the statement allows at most."""

    statement: str
    world: str
    true: float
    allowed: float


def _counter_examples() -> tuple[CounterExample, ...]:
    """Predictions are 0.9 throughout, so that e1 - e0 = -log 9 for the cross-entropy."""
    e1, e0 = label_errors(0.9)
    uninformed, p = [0.5, 0.5], [0.2, 0.8]
    two = theorem_2([0.1, 0.9], uninformed, residual=[1, -1])
    three = corollary_3(p, uninformed, [0.1, 0.9], uninformed, e1, e0)
    four = theorem_4(p, uninformed, [0.0, 1.0], uninformed, e1, e0)
    labels = theorem_4(p=0.5, p_hat=0.5, q=0.5, r_tilde=0.5, e1=e1, e0=e0)
    one_gap = theorem_4(p=0.5, p_hat=0.5, q=[0.0, 1.0], r_tilde=[1.0, 1.0], e1=e1, e0=e0)
    square = bias(p=0.9, p_hat=0.5, residual=0.5 * 0.5)
    by_rating = rating_driven_bias(p1=0.9, p0=0.1, p_hat=0.5, q=0.5, r_tilde=0.5, e1=e1, e0=e0)
    return (
        CounterExample(
            "Theorem 2 with binned ECE",
            "p = (.1, .9), p_hat = (.5, .5), residual = (1, -1)",
            two.exact,
            two.as_printed[0],
        ),
        CounterExample(
            "Corollary 3 with binned ECE",
            "p = (.2, .8), p_hat = (.5, .5), q = (.1, .9), r_tilde = (.5, .5)",
            three.exact,
            three.as_printed[0],
        ),
        CounterExample(
            "Corollary 3 with the plug-in square",
            "p = .9, p_hat = .5, q = r_tilde = .5, so that e - e_imputed = q(1 - q)",
            abs(square),
            0.0,
        ),
        CounterExample(
            "Corollary 3 where the rating drives seeing",
            "P(seen) = .9 if liked, .1 if not; q = r_tilde = .5, p_hat = P(seen) = .5",
            abs(by_rating),
            0.0,
        ),
        CounterExample(
            "Theorem 4 for realised ratings", "p = p_hat = .5, q = r_tilde = .5", labels.exact, labels.as_printed[0]
        ),
        CounterExample(
            "Theorem 4 with binned ECE",
            "p = (.2, .8), p_hat = (.5, .5), r = (0, 1), r_tilde = (.5, .5)",
            four.exact,
            four.as_printed[0],
        ),
        CounterExample(
            "Theorem 4 with its lost factor 1/n put back",
            "p = p_hat = .5, r = (0, 1), r_tilde = (1, 1)",
            one_gap.exact,
            one_gap.by_gap / 2,
        ),
    )


COUNTER_EXAMPLES = _counter_examples()
